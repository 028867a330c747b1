"""The noise of hosts, and what difference it hides.

- `record`: the noise record of one configuration, its sentences and its figure
- `page`: the page, and the noise of every recorded load
"""
