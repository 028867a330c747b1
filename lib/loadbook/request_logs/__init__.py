"""Per-request logs (JTL, h2load, ab) as streams, summaries and parquet.

- `stream`: batches of rows in the same columns for every tool, cut from a stream at the ends of records
- `jtl_rows`: columns and time stamps of JMeter's result files (JTL); requests, transactions, sub-results, outcomes
- `jtl_csv`: JTL in CSV
- `jtl_xml`: JTL in XML
- `summary`: exact distributions and counts by label and second, mergeable over files and drivers
- `read`: reads a log of any tool as a stream into a summary and, if requested, parquet
"""
