"""Floor 1: what is kept? Paths, checksummed trial records, the ledger and the table schemas."""
