"""Analysis: history."""
