"""Validity rules: records and tables in, violations out."""
