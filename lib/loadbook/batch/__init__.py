"""Many studies by one command, and runs in separate processes; modules in import order.

- `process`: a run in a separate process, for a batch or a notebook, and the state of the run
- `file`: reading batch files
- `jobs`: the jobs of a batch file (studies, hosts, notebooks), and the record of their results
- `index`: the index pages of a batch and of all reports
- `scheduler`: execution of jobs, in parallel if they use different hosts
- `site`: `loadbook report --all`: run every smoke study and make every report
"""
