"""Floor 5: how is it done? Preflight, the loop over trials, one trial; and, meeting them only in files, ingest."""
