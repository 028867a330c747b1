"""Ways of running a study's trials, one folder each.

The names of the modules in a folder begin with the layer on which they lie (docs/architecture.md): `spec` with `study`,
`stats` with `stats`, `rules` with `validity`, `read` with `ingestion`, `run` with `execution`.

- `interleaved`: all treatments of a block at once, in turns of slices
- `capacity`: searches for the highest rate that meets an objective, and certified rates
"""
