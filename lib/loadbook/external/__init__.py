"""Import of results measured without loadbook (`loadbook import`).

- `outputs`: the CSV file of conditions, the output files that it names, and their tool's report
- `study`: the study made from them, checks, and the run on disk
"""
