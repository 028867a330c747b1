"""Runs of a study: checks, deployment, the trial loop and one attempt at a trial.

A `RunSession` owns the run's folder and the `Testbed` (the open hosts); an `AttemptStore` the ledger and the folders of
attempts; an `Attempt` its record, the files in its folder, and its jobs on the hosts (`LoadJobs`, `TrialServices`,
`TrialMonitors`, `HostChangeJobs`). A `Deployment` is computed from study and hosts file and touches no host.

- `progress`: events of a run, and the wait for hosts that another run uses
- `select`: the run that a command means, added blocks, interim analyses
- `power`: noise recorded on the hosts, and the differences that a plan can detect
- `deployment`: services, CPUs and addresses of one treatment; names of an attempt's jobs
- `studies`: a study by its name, checked against services and tools, and its plan against the hosts file
- `load`: load jobs on the drivers, and the trial's status from their outputs
- `host_changes`: kernel, network and CPU changes for a trial
- `testbed`: the open hosts of a run with their roles
- `services`: services and monitors of one trial
- `host_state`: connections, rest between trials, disk space, stale jobs
- `preflight`: required programs, all checks before the first trial, other programs on the hosts
- `attempt`: one attempt at one trial, phase by phase
- `interleaved`: one attempt at one block whose treatments take turns
- `loop`: the loop over trials with retries, and the ledger's account of every attempt
- `session`: open hosts, resumption, the records of a run; `run_study`, the entry point
- `dry_run`: every step of a run, recorded without touching a host
"""
