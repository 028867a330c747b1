"""Runs in a lab that are interrupted, and what they leave."""

from __future__ import annotations

from controller_processes import at_work_in
from loadbook.hosts.lab import Lab

START_S = 120.0
STUDY = """
include = "aa.toml"
name = "stopped"
execution = "plain"
blocks = 1

[workload]
warmup_s = 0
connections = 4
duration_s = {duration_s}

[reset]
time_wait_sockets = 1000000
settle_s = {settle_s}

[validity]
driver_cpu = 1.0
"""


def load_runs(lab: Lab) -> list[int]:
    """Return the process ids of load generators in the lab."""
    return [pid for pid, line in at_work_in(lab).items() if line.startswith("wrk ") and "http://" in line]
