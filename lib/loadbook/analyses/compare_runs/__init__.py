"""Comparison of two runs of one study: how far each effect changed.

- `compute`: whether two runs can be compared, the change of each effect, sentences about the changes
- `figure`: plot of both runs' intervals side by side
- `page`: the comparison page, and the report built from its notebook
"""
