"""Floor 3: what does it mean? Comparisons, families, equivalence, errors, verdicts. Frames in, values out; no I/O."""
