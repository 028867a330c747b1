"""The study: what is compared, how it is read from TOML, and its plan.

- `workload`: the load, and how several drivers share it
- `treatments`: roles, factors and treatments
- `limits`: stopping rule, monitors, rest between trials, thresholds of the validity rules
- `problems`: mistakes in a file, by key path
- `claims`: claims of an article
- `ci_policy`: verdicts that fail a build
- `model`: the whole study
- `factorial`: designs of factors at two levels, and their aliases
- `generated_treatments`: treatments made by rule: grids and factorials
- `reader`: reading and checking a study file
- `plan`: every trial of a run, in order
"""
