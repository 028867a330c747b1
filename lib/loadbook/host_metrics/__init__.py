"""Host metrics (CPU, memory, network) from loadbook's sampler and from other monitors.

- `base`: metrics and their units, and the common result of all readers
- `sampler`: output of loadbook's own sampler (hosts/sampler.sh)
- `sysstat`: sar data exported by sadf as JSON or CSV
- `polled`: answers of munin nodes and node_exporters, and exports of their databases
- `registry`: the file formats, their detection and their readers
"""
