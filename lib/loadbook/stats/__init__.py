"""Statistics: paired tests, intervals, equivalence, verdicts and their sentences."""
