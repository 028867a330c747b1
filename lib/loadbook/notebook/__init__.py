"""The Python interface used in notebook cells."""
