"""Reports: blocks of text, tables and figures, pages of such blocks, and their export from executed notebooks.

- `palette`: colours, glyphs and words of verdicts; the stylesheet
- `figures`: the figures of one run, and what all figures share
- `nodes`: the nodes of which a block is made, written as HTML, plain text and Markdown
- `blocks`: what a notebook cell shows, and parts that many blocks share
- `sections`: set-up, hosts, validity messages, the table of every trial
- `checks`: harness checks, order of the trials, latency percentiles, rates within trials, changed conditions
- `verdicts`: the answer, verdict sentences, tables of effects, errors and latency
- `ci`: a run assessed by its study's `[ci]`, as JSON and JUnit XML
- `notebooks`: parameters and execution of notebooks
- `html`: an executed notebook as one HTML file, or as Markdown; summaries and links between pages
- `page`: the blocks that all pages of a run share
- `build`: the report of a study: ingestion, notebooks, export
"""
