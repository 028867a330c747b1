"""Analysis: compare runs."""
