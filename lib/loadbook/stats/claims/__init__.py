"""Claim replay: what articles say, judged by what a run found."""
