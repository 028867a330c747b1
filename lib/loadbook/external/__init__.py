"""Import of results measured without loadbook (`loadbook import`).

- `outputs`: the CSV file of conditions, the output files that it names, and the tools' reports in them
- `study`: the study made from these outputs, its checks, and the run on disk
"""
