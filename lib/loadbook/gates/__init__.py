"""Floor 6: does a trial count? Validity rules (docs/statistics.md): records and rows in, hits out; no I/O."""
