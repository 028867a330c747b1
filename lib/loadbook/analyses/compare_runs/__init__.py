"""Two runs of one study: how far each effect moved.

- `compute`: whether two runs can be compared, and the change of each effect
- `text`: sentences and numbers about two runs
- `figure`: both runs' intervals side by side
- `page`: the page, and the report made from its notebook
"""
