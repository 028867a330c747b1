"""Host metrics (CPU, memory, network) from loadbook's sampler and from other monitors.

- `base`: metrics of the host metrics table, results of readers, and recorded answers of polled monitors
- `sampler`: output of loadbook's own sampler (hosts/sampler.sh)
- `sysstat`: exports of sar: sadf as JSON or CSV
- `node_exporter`: scrapes of Prometheus' node_exporter
- `munin`: answers of a munin node, and exports of its round-robin databases
- `registry`: the file formats, their detection and their readers
"""
