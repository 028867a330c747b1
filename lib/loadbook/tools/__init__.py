"""Load generators: version probe, command line and parser; one module each.

- `base`: the protocol `Tool`, reports as rows, the registry of tools, and checks of workloads
- `line_patterns`: parser for text reports, which requires every expected line once and in order
- `json_report`: strict reading of JSON
- `recipes`: commands that install the tools that no distribution packages
- `request_rows`: rows of a report computed from the summary of a log of single requests
- `ab`: Apache ab 2.3
- `artillery`: JSON of Artillery 2, read only
- `autocannon`: autocannon 4 to 9
- `bombardier_text`: text of bombardier
- `bombardier`: reports of bombardier 1.2, read only
- `fortio_text`: text of fortio
- `fortio`: reports of fortio 1, read only
- `gatling`: summary and JSON of Gatling 3, read only
- `h2load`: nghttp2's h2load
- `httperf`: httperf 0.9
- `jmeter`: Apache JMeter 5 and its test plan
- `k6_text`: text of k6 from 0.31 on
- `k6`: k6 1 and its script
- `locust`: Locust 2 and its locustfile
- `oha_text`: text of oha from 0.5 on
- `oha`: oha 1
- `hey`: text of hey 0.1, read only
- `vegeta_text`: text of vegeta
- `vegeta`: vegeta 12
- `weighttp`: weighttp 0.3 to 0.5
- `wrk`: wrk 4
- `wrk2`: wrk2, which prints wrk's lines and an HdrHistogram
"""
