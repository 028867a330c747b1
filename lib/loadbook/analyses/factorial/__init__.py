"""Factorial studies: the effect of every factor and every pair.

- `contrasts`: block contrasts, their tests, and the pooled least-squares fit
- `compute`: the analysis of a run, and errors by factor
- `text`: sentences about factors and pairs
- `figure`: effects, and interaction plots
- `page`: the page, and the follow-up study
"""
