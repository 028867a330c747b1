"""The build gate: whether a run passes what its study declares unacceptable."""
