"""From raw files to tables."""
