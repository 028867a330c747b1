"""Import of results measured elsewhere."""
