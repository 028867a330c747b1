"""Resources of the hosts: which were saturated, and which monitors recorded it.

- `peers`: figure of one trial's host metrics beside the other trials of its treatment
- `page`: the page of resources
"""
