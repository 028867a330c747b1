"""Import of results measured without loadbook (`loadbook import`).

- `conditions`: the CSV file of conditions, and the output files that it names
- `reports`: the tool that wrote each output, and its parsed report
- `study`: the study made from them, checks, and the run on disk
"""
