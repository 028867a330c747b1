"""Validity rules: functions that read the records and tables of a run and return violations (hits).

- `base`: data classes that rules read and return
- `machine`: other load on the hosts, gaps in samples, clocks, recorded conditions, hosts not back at rest
- `load`: errors, limits of the driver, offered rate, several drivers, stalls
- `responses`: the page, the server that answered, number of requests, outputs of imported runs
- `host_limits`: CPU quotas, connections that are never answered
- `treatments`: treatments that answer otherwise than the baseline, and those that change nothing
- `rules`: functions that apply all rules to one trial or to a run
"""
