"""The study: what is compared, how it is read from TOML, and its plan.

- `workload`: the load, and how several drivers share it
- `treatments`: roles, factors and treatments
- `limits`: stopping rule, monitors, rest between trials, thresholds of the validity rules, verdicts that fail a build
- `problems`: mistakes in a file, by key path
- `model`: the whole study, and claims of an article
- `interleaving`: whether treatments can take turns, and the lengths of slice and gap
- `designs`: treatments made by rule: grids and factorials, and effects that are confounded
- `reader`: reading and checking a study file
- `plan`: every trial of a run, in order
"""
