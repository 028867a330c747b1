"""Rates over page size: which cost rules, what limits, where tiers converge.

- `compute`: series, their two-regime curves, bottlenecks and tiers of a run
- `text`: sentences about page sizes
- `figure`: the curves, what limits, and the ratio of two tiers
- `page`: the page, and JMeter's own columns
"""
