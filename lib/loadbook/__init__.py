"""Loadbook: the laboratory notebook for web-server and load-balancer benchmarks."""

__version__ = "0.1.0"
