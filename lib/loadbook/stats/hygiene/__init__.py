"""What could spoil a comparison: warm-up, drift, carry-over, unstable effects, far trials, tails without requests."""
