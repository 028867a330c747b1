"""The noise of hosts, and what difference it hides.

- `compute`: the noise record of one configuration
- `figure`: the noise record as a figure
- `page`: the page, and the noise of every recorded load
"""
