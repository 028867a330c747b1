"""The noise of hosts: the scatter of equal trials, and the smallest difference that can be detected despite it.

- `record`: the noise record (equal trials of one configuration), with its sentences and its figure
- `page`: the page, and the table of the noise of every recorded load
"""
