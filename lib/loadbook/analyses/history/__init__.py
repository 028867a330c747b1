"""The history of a study: its effects in all of its runs, over time.

- `levels`: mean effects of several runs ("levels"), changes between them, and the alarm for the newest run
- `compute`: the effects of each treatment in all runs, with levels, changes and alarm, and sentences about them
- `figure`: plot of effects by date
- `runs`: reads every run of a study
- `page`: the page of a history
"""
