"""Quality of a run's data.

- `page`: the page on valid trials, noise, rates within trials, problems and phases
"""
