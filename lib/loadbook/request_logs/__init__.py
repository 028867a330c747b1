"""Per-request logs (JTL, h2load, ab) as streams, summaries and parquet."""
