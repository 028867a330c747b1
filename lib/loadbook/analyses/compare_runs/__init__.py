"""Two runs of one study: how far each effect moved.

- `compute`: whether two runs can be compared, the change of each effect, sentences about it
- `figure`: both runs' intervals side by side
- `page`: the page, and the report made from its notebook
"""
