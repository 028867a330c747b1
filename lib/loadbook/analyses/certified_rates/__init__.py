"""Certified rates: which rates most starts of a service sustain within an objective.

- `compute`: the starts of every treatment at its rate, and what they certify
- `figure`: plot of the time of every start
- `page`: the page, and the table of rates
"""
