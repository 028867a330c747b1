"""Analysis: effects."""
