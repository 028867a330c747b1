"""Runs of a study: checks, deployment, the trial loop and one attempt at a trial.

A `RunSession` manages the run's folder and the `Testbed` (the connected hosts), an `AttemptStore` the ledger and the
folders of attempts. An `Attempt` manages its record, the files in its folder, and its jobs on the hosts (`LoadJobs`,
`TrialServices`, `TrialMonitors`, `HostChangeJobs`). A `Deployment` is computed from study and hosts file only.

- `progress`: events of a run, and waiting for hosts that another run uses
- `placement`: services of a run on its hosts, with their ports; names of an attempt's jobs
- `studies`: finding a study by its name, checking it against services and tools, and its plan against the hosts file
- `estimates`: changes so far of a run that is under way
- `select`: the run that a command resumes, extends or starts; added blocks; interim analyses
- `power`: noise recorded on the hosts, and the smallest differences that a plan can detect
- `load`: load jobs on the drivers, and the trial's status from their outputs
- `testbed`: the connected hosts of a run with their roles
- `deployment`: services, CPUs and addresses of one treatment
- `host_changes`: kernel, network and CPU changes for a trial
- `services`: services and monitors of one trial
- `host_state`: lost connections, waiting until hosts are idle again, disk space, jobs left by dead controllers
- `background_load`: other programs, connections, package managers and runs on the hosts
- `preflight`: required programs, all checks before the first trial
- `study_check`: those checks for `loadbook doctor STUDY`
- `attempt`: one attempt at one trial, phase by phase
- `arms_load`: the load jobs of a block whose treatments are measured together
- `arms_requirements`: perl, memory and ports that such blocks need on their hosts
- `attempt_store`: the ledger's entries and the folders of attempts
- `block_runner`: blocks whose treatments are measured together, and their retries
- `arms`: one attempt at such a block
- `loop`: the loop over trials with retries
- `session`: `run_study`, the entry point; connecting to the hosts, resuming a run, writing the run's records
- `dry_run`: every step of a run, listed without connecting to a host
- `arms_dry`: the steps of a block whose treatments are measured together
"""
