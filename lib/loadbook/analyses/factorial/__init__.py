"""Factorial studies: the effect of every factor and every pair.

- `compute`: contrasts of blocks and their tests, the pooled fit, the analysis of a run, errors by factor
- `text`: sentences about factors and pairs
- `figure`: effects, and interaction plots
- `page`: the page, and the follow-up study
"""
