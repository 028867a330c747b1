"""Basics that all other packages use: errors, units, metrics, validity rules, TOML and CSV files.

- `clock`: the time, and waiting; tests turn it
- `text`: removes control characters from texts; finds names similar to a mistyped one
- `units`: converts texts to numbers in base units, and numbers and durations to texts
- `errors`: exceptions with exit codes and hints
- `bucketed_times`: percentiles, mean and deviation of several histograms together
- `compressed`: reads files compressed by gzip or zstd
- `csv_file`: reads CSV files that people made, with line numbers
- `go_programs`: options, durations and error messages of programs written in Go
- `metrics`: names, units and better directions of metrics
- `toml`: reads TOML files, also with former names of keys
- `validity_rules`: titles and advice of the validity rules
"""
