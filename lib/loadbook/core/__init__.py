"""Foundations of every layer: errors, units, metrics, validity rules, TOML files.

- `text`: text cleaned for terminals and pages; names that resemble a mistyped one
- `errors`: exceptions with exit codes and hints
- `metrics`: names, units and directions of metrics
- `toml`: TOML files and the old names of their keys
- `units`: numbers and durations as text
- `validity_rules`: titles and advice of the validity rules
"""
