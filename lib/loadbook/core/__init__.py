"""Floor 0: in which words? Errors, units, and the registry of metrics. Imports nothing of loadbook."""
