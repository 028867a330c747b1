"""Many studies by one call, and runs in processes of their own; modules in import order.

- `process`: a run in a process of its own, for a batch or a notebook, and its state
- `file`: batch files
- `jobs`: what a batch file asks for here, and the record of what came of it
- `index`: the index pages of a batch and of all reports
- `scheduler`: jobs at work, several where hosts differ
- `site`: every smoke study and every report by one call
"""
