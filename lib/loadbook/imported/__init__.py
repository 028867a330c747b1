"""Import of results measured without loadbook (`loadbook import`).

- `outputs`: the CSV file of conditions, and the output files that it names
- `reports`: the tools' reports in these files
- `earlier`: earlier imports of the same outputs, or of some of them
- `study`: the study made from these outputs, its checks, and the run on disk
"""
