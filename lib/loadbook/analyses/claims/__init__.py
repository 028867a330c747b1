"""Claims of articles, checked against a run.

- `compute`: comparisons of a run for checks, results in words, the evidence in an article's own numbers
- `checks`: one check per kind of claim, and the check of all claims of a study
- `page`: the figure, the section of the effects page, and the check of claims against all runs of a study
"""
