"""Floor 2: what is kept? Paths, checksummed trial records, the ledger and the table schemas."""
