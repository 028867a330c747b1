"""Load generators: version probe, command line and parser; one module each."""
