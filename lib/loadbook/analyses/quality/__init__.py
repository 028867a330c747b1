"""Quality of a run's data.

- `page`: the page on trials that count, noise, rates within trials, problems and phases
"""
