"""Validity rules: records and tables of a run in, violations out.

- `base`: what a rule reads and returns
- `load`: errors, limits of the driver, the rate that was offered, several drivers, stalls
- `responses`: the page, the server that answered, how much was measured, outputs of imported runs
- `machine`: other load on the hosts, gaps in samples, clocks, recorded conditions, hosts back at rest
- `rules`: all rules on one trial, all rules on a run
"""
