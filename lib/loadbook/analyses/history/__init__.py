"""A study through all of its runs.

- `levels`: levels of several runs, changes between them, and the alarm of the newest run
- `compute`: each comparison through the runs, and sentences about it
- `figure`: effects by date
- `runs`: reading every run of a study
- `page`: the page of a history
"""
