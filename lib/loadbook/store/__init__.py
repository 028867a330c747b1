"""Files of a run: paths, records, ledger, tables, verification and export.

- `atomic`: files and folders written whole or not at all, and one run at a time in a study's folder
- `paths`: where every file of a run lies
- `trial_record`: trial.json
- `run_record`: run.json, and recorded conditions in which two runs differ
- `ledger`: ledger.jsonl, the events of a run
- `tables`: columns of the processed tables, and the tables of a run
- `verify`: checks of recorded files against their checksums
- `export`: runs as archives and spreadsheets
"""
