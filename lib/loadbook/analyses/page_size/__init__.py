"""Rates over page size: which cost rules, what limits, where tiers converge.

- `curve`: the two-regime curve of one series
- `compute`: series, bottlenecks and tiers of a run
- `text`: sentences about page sizes
- `size_axis`: an axis of page sizes
- `tier_ratios`: the ratio of two tiers
- `figure`: the curves
- `page`: the page, and JMeter's own columns
"""
