"""Readers of per-request logs (JMeter's JTL, vegeta, k6, Gatling, h2load, ab), and their summaries and parquet files.

- `stream`: batches of rows with the same columns for every tool, and the splitting of a stream into whole records
- `spreadsheets`: what spreadsheets make of a JTL
- `jtl_rows`: columns and time stamps of JMeter's result files (JTL); requests, transactions, sub-results, outcomes
- `jtl_csv`: reader of JTL in CSV
- `jtl_xml`: reader of JTL in XML
- `k6_points`: reader of k6's points of metrics, CSV or JSON lines
- `vegeta_rows`: reader of vegeta's results, CSV or JSON lines
- `vegeta_gob`: reader of the binary results that `vegeta attack` leaves
- `gatling_rows`: outcomes of Gatling's requests, and reader of its simulation.log as text
- `gatling_log`: reader of Gatling's simulation.log as binary file
- `summary`: exact distributions and counts by label and second, mergeable over files and drivers
- `read`: reads a log of any tool as a stream into a summary and, if requested, a parquet file
"""
