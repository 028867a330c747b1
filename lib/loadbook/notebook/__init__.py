"""The Python interface of notebook cells, ``import loadbook as lb``; modules in import order.

- `display`: objects that a cell displays, and figures
- `trials`: metrics by name, tables of trials, runs with some of their trials only
- `raw`: files of a trial
- `compare`: comparisons within a run and between two runs
- `plots`: every figure of the reports for one run
- `zoom`: a figure to zoom into (plotly)
- `run`: a recorded run, ``lb.load``
- `studies`: the table of studies, ``lb.history``, and pickers (ipywidgets)
- `live_run`: plan, run with live progress, ingest, state
- `completion`: completion by the Tab key inside quotes
"""
