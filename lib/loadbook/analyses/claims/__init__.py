"""Claims of articles, checked against a run.

- `compute`: a run as claims need it, the result of a check in words, the worth of an article's own numbers
- `checks`: one check per kind of claim, and the check of all claims of a study
- `page`: the article's values beside the run's intervals, the section of the effects page, claims over all runs
"""
