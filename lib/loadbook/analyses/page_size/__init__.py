"""Analysis: page size."""
