"""Many studies by one command, and commands as processes; modules in import order.

- `commands`: commands of loadbook as processes whose events are read, for batches and notebooks
- `file`: reading batch files
- `jobs`: the jobs of a batch file (studies, hosts, notebooks), and the record of their results
- `index`: the index pages of a batch and of all reports
- `worker`: the run and the reports of one job, each by a command
- `scheduler`: execution of jobs, in parallel if they use different hosts
- `site`: `loadbook report --all`: run every smoke study and make every report
"""
