"""The load of one trial on several drivers, without a host: shares, commands, the instant at which all begin."""

from __future__ import annotations

import subprocess
from dataclasses import replace

from loadbook.execution.load import LoadJobs
from loadbook.services.instance import LaunchOptions
from loadbook.study.workload import Workload, split_load
from loadbook.tools import base
from loadbook.tools.base import Target

TARGET = Target("192.0.2.1", 80)


def load_of(work: Workload, *drivers: str) -> LoadJobs:
    return LoadJobs(base.load_tool(work.tool), split_load(work, drivers), TARGET, "load")


def test_load_open_file_limit_covers_warm_up_and_measurement():
    work = Workload(tool="wrk", connections=50, duration_s=4, warmup_s=2)
    plain = load_of(work, "a").steps_on("a")
    limited = replace(load_of(work, "a"), launch=LaunchOptions(nofile=128)).steps_on("a")
    assert [step[-len(was) :] for step, was in zip(limited, plain, strict=True)] == list(plain)
    words = ("/bin/sh", "-c", "ulimit -n; exec true", "sh")
    for step, was in zip(limited, plain, strict=True):
        done = subprocess.run([*step[: -len(was)], *words], capture_output=True, text=True, check=True)
        assert done.stdout == "128\n"
