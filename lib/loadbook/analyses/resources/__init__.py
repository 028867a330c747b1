"""Analysis: resources."""
