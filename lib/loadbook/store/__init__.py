"""Files of a run: paths, records, ledger, tables, verification and export.

- `atomic`: writes files and folders completely or not at all, and allows one run at a time in a study's folder
- `paths`: paths of all files of a run
- `trial_record`: trial.json, the record of a trial
- `run_record`: run.json, the record of a run; conditions in which two runs differ
- `ledger`: ledger.jsonl, the events of a run
- `columns`: columns of the processed tables, with their meanings
- `tables`: the processed tables as files and frames, and a run loaded with its tables
- `verify`: checks of recorded files against their checksums
- `export`: runs as archives, as CSV for spreadsheets, and in Go's benchmark format
"""
