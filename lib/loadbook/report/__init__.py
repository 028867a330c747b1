"""Reports: blocks (text, tables, figures), pages made of blocks, and their export from executed notebooks.

- `palette`: colours, glyphs and words of verdicts; the stylesheet
- `ratios`: the log axis of ratios
- `strips`: intervals of effects over the margin, as small HTML boxes and as lines of characters
- `figures`: the figures of one run, and the code that all figures share
- `nodes`: the parts of a block (paragraph, table, ...), written as HTML, plain text and Markdown
- `blocks`: the content of a notebook cell, and parts that many blocks share
- `sections`: set-up, hosts, messages of validity rules, the table of every trial
- `checks`: harness checks, order of the trials, latency percentiles, rates within trials, changed conditions
- `verdicts`: the answer, verdict sentences, tables of effects, errors and latency
- `ci`: the result of a run by its study's CI policy (`[ci]`), as JSON and JUnit XML
- `prices`: prices of treatments, per rate and per million requests
- `parameters`: parameters of notebooks, checked by name and type
- `ipynb`: notebook files
- `kernel`: one kernel for the notebooks of a report
- `engine`: papermill's engine, extended
- `notebooks`: execution of notebooks
- `html`: export of an executed notebook as one HTML file or as Markdown; summaries and links between pages
- `page`: the blocks that all pages of a run share
- `build`: building the report of a study: ingestion, notebooks, export
"""
