"""Factorial studies: the effect of every factor and of every pair of factors.

- `compute`: contrasts per block and their tests, the pooled fit, the analysis of a run, errors by factor
- `text`: sentences about factors and pairs
- `figure`: effect plot and interaction plots
- `page`: the page, and the proposed follow-up study
"""
