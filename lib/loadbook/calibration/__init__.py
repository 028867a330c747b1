"""Calibration of load generators: each loads a server of known behaviour, and its numbers stand beside the server's.

- `cases`: behaviours of the server, loads, and the studies that combine them with the tools of a driver
- `truth`: what the server recorded of one trial, and what users would have waited
- `certificate`: numbers of each tool beside the truth, the rule that trusts them, and the file that keeps them
- `tables`: the certificate as tables
- `citation`: the sentence by which a report cites it
"""
