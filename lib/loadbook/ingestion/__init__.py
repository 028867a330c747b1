"""Ingestion: makes the five tables of a run from its raw files.

- `host_metrics`: metric files of hosts (sar, munin, Prometheus) that are added to a run
- `report_files`: one of several reports in a file
- `captured`: the files of one execution of a load generator
- `driver_totals`: totals over all drivers of a trial
- `trial_rows`: rows of one trial: measurements, samples, traces, counters
- `request_tables`: tables of single requests
- `service_logs`: reasons of failed requests in the logs of services
- `workers`: reads parts of a run in worker processes or on a Dask cluster
- `cache`: finds trial folders that changed since the last ingest
- `ingest`: makes the tables of all trials and applies the validity rules
"""
