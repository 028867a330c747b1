"""Running a study: preflight, deployment, the trial loop and one attempt."""
