"""Many studies by one call, and runs in processes of their own; modules in import order.

- `progress`: the state of a run, and progress on a terminal or as plain lines
- `process`: a run in a process of its own, for a batch or a notebook
- `file`: batch files
- `jobs`: what a batch file asks for here, and the record of what came of it
- `page`: the summary page of a batch
- `scheduler`: jobs at work, several where hosts differ
- `index`: the index page of all reports
- `site`: every smoke study and every report by one call
"""
