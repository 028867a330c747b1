"""Host metrics (CPU, memory, network) from loadbook's sampler and from other monitors.

- `base`: metrics of the host metrics table, and results of readers
- `sampler`: output of loadbook's own sampler (hosts/sampler.sh)
- `sysstat`: exports of sar: sadf as JSON or CSV
- `polled`: answers of munin nodes and node_exporters, and their exports
- `registry`: the file formats, their detection and their readers
"""
