"""Analysis: balancers."""
