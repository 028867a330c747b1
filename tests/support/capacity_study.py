"""A study of two capacities that are known: slots / hold time of an application."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from loadbook.hosts.shell import search_path
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.trial_record import TrialRecord, read_trial
from loadbook.tools.base import load_tool

NEEDS_VEGETA = pytest.mark.skipif(
    not shutil.which("vegeta", path=search_path()), reason=f"no vegeta: {load_tool('vegeta').install_hint}"
)
# 200 a second with four slots, 250 with five
STUDY = """
schema = 1
name = "sustained"
question = "How much load does each sustain?"
baseline = "four-slots"
blocks = {blocks}
[capacity]
within_s = {within_s}
share = 0.8
[roles.driver]
[roles.web]
service = "go-app"
vars = {{ hold_ms = {hold_ms}, slots = 4, page_bytes = 64 }}
[workload]
tool = "vegeta"
model = "open"
rate_per_s = {start}
duration_s = 1
warmup_s = 0
connections = 8
timeout_s = 8
[reset]
settle_s = 0
time_wait_sockets = 1000000
# where these run, driver and server share two CPUs with other work
[validity]
driver_cpu = 1.0
[factors]
slots = {{ levels = [4, 5] }}
[treatments.four-slots]
[treatments.five-slots]
set = {{ slots = 5 }}
"""


def written(layout: Layout, **values: Any) -> None:
    text = STUDY.format(**{"blocks": 1, "within_s": 0.1, "hold_ms": 20, "start": 180} | values)
    (layout.studies / "sustained.toml").write_text(text)


def records_of(paths: RunPaths) -> list[TrialRecord]:
    return [read_trial(folder) for folder in sorted(paths.trials.iterdir())]
