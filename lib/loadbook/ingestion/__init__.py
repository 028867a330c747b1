"""Ingestion: makes the five tables of a run from its raw files.

- `host_metrics`: metric files of hosts (sar, munin, Prometheus) that are added to a run
- `report_files`: one of several reports in a file
- `trial_rows`: rows of one trial: measurements, samples, traces, request logs
- `service_logs`: reasons of failed requests in the logs of services
- `workers`: reads parts of a run in worker processes or on a Dask cluster
- `cache`: finds trial folders that changed since the last ingest
- `ingest`: makes the tables of all trials and applies the validity rules
"""
