"""Analysis: claims."""
