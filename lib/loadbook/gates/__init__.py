"""Floor 4: does it count? Validity rules. Records and frames in, hits out; no I/O."""
