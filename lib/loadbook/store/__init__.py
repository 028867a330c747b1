"""Files of a run: paths, records, ledger, tables, verification and export."""
