"""Ways of running a study's trials, one folder each.

The names of the modules in a folder begin with the layer on which they lie (docs/architecture.md): `spec` with `study`,
`replay` with `hosts`, `services` and `stats` with those, `rules` with `validity`, `read` with `ingestion`, `run` with
`execution`, `page` with `report`. The module `mode` has the mode itself.

- `base`: the interface of a mode, and the list of all modes
- `plain`: one trial after the other; what holds for a mode unless its folder says otherwise
- `interleaved`: all treatments of a block at once, in turns of slices
- `shared`: all treatments of a block at once, by the requests of one load generator
- `capacity`: searches for the highest rate that meets an objective, and certified rates
"""
