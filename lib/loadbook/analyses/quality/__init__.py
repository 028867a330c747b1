"""Analysis: quality."""
