"""Simulated studies that loadbook's own functions judge: what `validation.py` runs."""
