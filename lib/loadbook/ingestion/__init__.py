"""From the raw files of a run to its five tables.

- `host_metrics`: metric files of hosts that are added to a run
- `interleaved`: rates and processes of one arm of an interleaved block
- `trial_rows`: rows of one trial: measurements, samples, traces, request logs
- `workers`: parts of a run in worker processes or on a Dask cluster
- `cache`: trial folders, and what the last ingest has read of them
- `ingest`: all trials of a run to tables, with the validity rules
"""
