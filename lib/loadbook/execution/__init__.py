"""Runs of a study: checks, deployment, the trial loop and one attempt at a trial.

- `studies`: a study by its name, checked against its services and tools
- `progress`: events of a run, and the wait for hosts that another run uses
- `select`: the run that a command means, added blocks, interim analyses
- `power`: noise recorded on the hosts, and the differences that a plan can detect
- `deployment`: services, jobs and folders of one treatment on the hosts
- `load`: load jobs on the drivers, and the trial's status from their outputs
- `host_changes`: kernel, network and CPU changes for a trial; the page and the files kept as evidence
- `plan_checks`: limits on load, and the hosts that a plan needs
- `testbed`: the open hosts of a run with their roles
- `services`: start, proof, counters and stop of a trial's services
- `monitors`: samplers and host monitors during a trial
- `host_state`: connections, rest between trials, disk space, stale jobs
- `preflight`: required programs, and all checks before the first trial
- `background_load`: other programs on the hosts before a run
- `attempt`: one attempt at one trial, phase by phase
- `loop`: the loop over trials with retries, and the ledger's account of every attempt
- `session`: open hosts, resumption, the records of a run
- `api`: `run_study`, the entry point
- `dry_run`: every step of a run, recorded without touching a host
"""
