"""Resources of the hosts: what was full, and who recorded it.

- `peers`: the figure of one trial beside the others of its treatment
- `page`: the page of resources
"""
