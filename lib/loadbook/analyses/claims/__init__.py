"""Claims of articles, checked against a run.

- `text`: sentences about claims and their checks
- `compute`: a run as claims need it, and the worth of an article's own numbers
- `checks`: one check per kind of claim, and the check of all claims of a study
- `figure`: the article's values beside the run's intervals
- `page`: the section of the effects page, and claims over all runs of a study
"""
