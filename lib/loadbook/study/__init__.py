"""The study: model of a study file, reading and checking it, and the plan of its trials.

- `workload`: the load, and its division among several drivers
- `treatments`: roles, factors and treatments
- `limits`: stopping rule, monitors, rest between trials, thresholds of validity rules, CI policy
- `problems`: mistakes in a study file, with key paths
- `model`: the whole study, and claims of an article
- `designs`: grids and factorials of treatments, and effects that are confounded
- `reader`: reads and checks a study file
- `plan`: all trials of a run, in order
"""
