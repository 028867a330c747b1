"""Floor 5: what does it mean? Comparisons, families, equivalence, errors, verdicts. Frames in, values out; no I/O."""
