"""Analysis: factorial."""
