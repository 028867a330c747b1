"""Foundations: errors, units, metrics and the registry of validity rules."""
