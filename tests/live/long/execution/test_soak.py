"""Five hundred trials in a row: nothing grows in the controller or on the hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller_processes import at_work_in, must_be_whole
from recorded_run import with_studies

BLOCKS, EVERY, SETTLED = 250, 25, 100
STUDY = f"""
include = "aa.toml"
name = "soak"
blocks = {BLOCKS}

[workload]
tool = "ab"
requests = 2000
duration_s = 0.2
warmup_s = 0
connections = 4

[reset]
time_wait_sockets = 1000000
settle_s = 0

[validity]
driver_cpu = 1.0
"""
# growth over the last 400 trials, by the slope of a straight line: a leak of one in twenty trials is found; memory may
# grow by what the ledger holds of a run
MAY_GROW = {"files": 2, "threads": 2, "rss_mb": 12, "remote_files": 5, "processes": 2, "sessions": 0.5}
CONTROLLER = """
import json, os, sys
from pathlib import Path
from loadbook.store.paths import Layout
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study

lab, every = Path(sys.argv[2]), int(sys.argv[3])

def sample(event):
    if event.kind == "trial-ended" and event.done % every == 0:
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        found = {"trial": event.done, "files": len(os.listdir("/proc/self/fd")), "threads": int(status["Threads"]),
                 "rss_mb": int(status["VmRSS"].split()[0]) / 1024,
                 "remote_files": sum(1 for _ in lab.glob("*/work/**/*"))}
        print(json.dumps(found), flush=True)

run_study(Layout(Path(sys.argv[1])), RunRequest("soak", lab / "hosts.toml"), on_event=sample)
"""


def slope(xs: list[float], ys: list[float]) -> float:
    """Return the slope of the straight line through points, by least squares."""
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def sessions_of(lab) -> int:
    """Return how many sessions the servers of a lab have: processes below their listeners that serve a user."""
    parents, sshd = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text, line = stat.read_text(), (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if "(sshd" in text:
            sshd[int(stat.parent.name)] = line
            parents[int(stat.parent.name)] = int(text.rpartition(")")[2].split()[1])
    mine = {pid for pid, line in sshd.items() if os.fsencode(lab.folder) in line}
    return sum(parents[pid] in mine for pid in sshd)


@pytest.mark.fault(53)
def test_memory_threads_and_files_do_not_grow_over_five_hundred_trials(lab, tmp_path, record_property):
    layout = with_studies(tmp_path / "home")
    (layout.studies / "soak.toml").write_text(STUDY)
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(layout.root), str(lab.folder), str(EVERY)],
        stdout=subprocess.PIPE,
        text=True,
    )
    samples, before = [], set(lab.folder.glob("*/work/services/*"))
    for line in controller.stdout:
        here = {"processes": len(at_work_in(lab)), "sessions": sessions_of(lab)}
        samples.append(json.loads(line) | here)
    assert controller.wait() == 0
    (run,) = layout.runs("soak")
    must_be_whole(layout.run("soak", run), [f"t{number:04d}" for number in range(1, 2 * BLOCKS + 1)])
    settled = [s for s in samples if s["trial"] >= SETTLED]
    trials = [float(s["trial"]) for s in settled]
    grown = {name: slope(trials, [float(s[name]) for s in settled]) * (trials[-1] - trials[0]) for name in MAY_GROW}
    first, last = settled[0], settled[-1]
    reported = ", ".join(f"{name} {first[name]:.4g} to {last[name]:.4g} ({grown[name]:+.1f})" for name in MAY_GROW)
    record_property("seen", f"from trial {first['trial']} to {last['trial']}: {reported}")
    print(json.dumps(samples))
    assert all(grown[name] <= most for name, most in MAY_GROW.items()), reported
    assert set(lab.folder.glob("*/work/services/*")) <= before
