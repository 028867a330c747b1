"""Capacity: how much load each treatment sustains within an objective, and how its times rise with the load.

- `compute`: the probes of a run, and each treatment's capacity
- `figure`: plot of every probe's time against its rate, with the objective and the capacities of blocks
- `page`: the page, and the table of capacities
"""
