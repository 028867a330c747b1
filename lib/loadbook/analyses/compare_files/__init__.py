"""Question: which of several folders or files with outputs of load generators belongs to the faster service.

- `sides`: the outputs that each argument names, and which of their runs count
- `loads`: what differs between the loads of the sides, as far as the reports print it
- `compute`: the metric that decides, the verdicts, and what such files cannot tell
- `figure`: the value of every run, side by side
- `page`: the result as text, Markdown, JSON and an HTML page
"""
