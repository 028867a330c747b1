"""The study: model of a study file, reading and checking it, and the plan of its trials.

- `workload`: the load, and its division among several drivers
- `capacity`: objective within which capacities are searched, and the load of a probe
- `treatments`: roles, factors and treatments
- `limits`: stopping rule, monitors, rest between trials, thresholds of validity rules, CI policy
- `problems`: mistakes in a study file, with key paths
- `model`: the whole study, and claims of an article
- `interleaving`: conditions for interleaved blocks, and the lengths of slice and gap
- `rate_search`: search for the capacities of several arms in lockstep rounds of probes
- `designs`: grids and factorials of treatments, and effects that are confounded
- `reader`: reads and checks a study file
- `plan`: all trials of a run, in order
"""
