"""Analysis: noise."""
