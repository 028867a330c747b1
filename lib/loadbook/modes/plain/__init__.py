"""Plain trials, one after the other: what holds for every mode unless its own folder says otherwise.

- `replay`: trials of a recorded run, played back
- `stats`: statistics that other modes replace
- `rules`: validity rules that depend on how a trial was run
- `read`: what ingestion reads of a trial besides the outputs of its load generators
- `run`: attempts at trials on hosts, and what a mode requires of hosts
- `page`: facts of a page: order, load, what decides
- `mode`: the mode
"""
