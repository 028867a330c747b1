"""Load generators: version probe, command line and parser; one module each.

- `base`: the protocol `Tool`, reports as rows, the registry of tools, and checks of workloads
- `line_patterns`: parser for text reports, which requires every expected line once and in order
- `request_rows`: rows of a report computed from the summary of a log of single requests
- `ab`: Apache ab 2.3
- `h2load`: nghttp2's h2load
- `httperf`: httperf 0.9
- `jmeter`: Apache JMeter 5 and its test plan
- `vegeta`: vegeta 12
- `weighttp`: weighttp 0.3 to 0.5
- `wrk`: wrk 4
- `wrk2`: wrk2, which prints wrk's lines and an HdrHistogram
"""
