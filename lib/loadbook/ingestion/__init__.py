"""Ingestion: makes the five tables of a run from its raw files.

- `host_metrics`: metric files of hosts (sar, munin, Prometheus) that are added to a run
- `text_marks`: marks of a whole text: of HTML and Markdown, doubled lines, a prefix of every line
- `task_results`: outputs in JSON of Ansible
- `row_prefixes`: prefixes of each line of a JTL or a CSV
- `wrapping`: what reports lie in: compression, encodings, prefixes of lines
- `report_files`: the reports in a file
- `captured`: the files of one execution of a load generator
- `recognise`: which tool wrote a report, and what it says
- `driver_totals`: totals over all drivers of a trial
- `trial_rows`: rows of one trial: measurements, samples, traces, counters
- `request_tables`: tables of single requests
- `service_logs`: reasons of failed requests in the logs of services
- `workers`: reads parts of a run in worker processes or on a Dask cluster
- `cache`: finds trial folders that changed since the last ingest
- `ingest`: makes the tables of all trials and applies the validity rules
"""
