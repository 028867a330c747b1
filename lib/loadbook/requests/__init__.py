"""Per-request results, read as streams: exact counts, times by label and series in constant memory, and parquet.

The door is `loadbook.requests.api.summarise`; it imports pyarrow, so import it where it is used.
"""
