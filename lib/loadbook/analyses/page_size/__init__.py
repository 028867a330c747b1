"""Rates over page size: the dominant cost, the limiting resource, and the size from which two web tiers are equal.

- `compute`: series of page sizes, their two-regime curves, bottlenecks, comparison of web tiers
- `text`: sentences about page sizes
- `figure`: plot of the curves, of the bottlenecks, and of the ratio of two tiers
- `page`: the page, and the tables with JMeter's own columns
"""
