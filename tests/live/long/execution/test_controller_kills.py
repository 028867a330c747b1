"""kill -9 of the controller at random instants: nothing lost, repeated, changed, unreadable; no orphan."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from controller_processes import at_work_in, digests, jobs_left, loadbook, must_be_whole
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.execution.studies import load_study
from loadbook.hosts.lab import Lab
from loadbook.store.ledger import read_ledger
from loadbook.store.paths import Layout
from loadbook.store.trial_record import read_json
from loadbook.study.plan import make_plan
from waiting import PATIENCE_S, wait_until

STUDY = """
include = "aa.toml"
name = "killed"
execution = "plain"
blocks = {blocks}

[workload]
warmup_s = 0
connections = 4

[reset]
time_wait_sockets = 1000000
settle_s = 0

# where these run, driver and server may share two CPUs with other work
[validity]
driver_cpu = 1.0
"""
# seconds after something was written in which a controller is killed; and until a host has ended what it left behind
WRITTEN_S, LEASE_S = 0.05, 35.0

# what is killed is a process of its own that runs the real thing; it is forked from one that has imported everything
_fork = multiprocessing.get_context("forkserver")
_fork.set_forkserver_preload(["__main__", "loadbook.execution.session", "loadbook.hosts.remote", "loadbook.tools.wrk"])


def begin(layout: Layout, lab: Lab) -> BaseProcess:
    process = _fork.Process(target=run_study, args=(layout, RunRequest("killed", lab.hosts_file)), daemon=True)
    process.start()
    return process


def _is_load(line: str) -> bool:
    return line.startswith("wrk ") and "http://" in line


class Killer:
    """Kills controllers while they start, while they work, right when they write, and in the middle of a load."""

    def __init__(self, lab: Lab, layout: Layout, seed: int) -> None:
        self.lab, self.layout, self.draw = lab, layout, random.Random(seed)
        self.kills = 0
        # how long it takes here and now until a controller writes something
        self.start_s = 1.0
        self.gone_s: list[float] = []

    def kill_one(self) -> None:
        """Start a controller and kill it; it may have ended by then."""
        process = begin(self.layout, self.lab)
        ways = (self._loading, self._starting, self._working, self._writing, self._writing)
        way = ways[self.kills % len(ways)]
        way(process)
        self.kills += 1
        process.kill()
        process.join(PATIENCE_S)
        assert process.exitcode in (0, -signal.SIGKILL)
        if way == self._loading:
            self.gone_s.append(gone_after(self.lab))

    def _starting(self, process: BaseProcess) -> None:
        process.join(self.draw.uniform(0, self.start_s))

    def _working(self, process: BaseProcess) -> None:
        before, begun = self._written(), time.monotonic()
        self._until(process, lambda: self._written() != before)
        self.start_s = time.monotonic() - begun
        process.join(self.draw.uniform(0, self.start_s))

    def _writing(self, process: BaseProcess) -> None:
        for _ in range(self.draw.randint(1, 6)):  # resumed, settled, begun, ended, begun, ended
            before = self._written()
            self._until(process, lambda before=before: self._written() != before)
        time.sleep(self.draw.uniform(0, WRITTEN_S))

    def _loading(self, process: BaseProcess) -> None:
        self._until(process, lambda: any(_is_load(line) for line in jobs_left(self.lab)))
        time.sleep(self.draw.uniform(0, 1))

    def _until(self, process: BaseProcess, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition() and process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.002)

    def _written(self) -> int:
        return sum(p.stat().st_size for p in self.layout.study_raw("killed").glob("*/ledger.jsonl"))


def kill_many(lab: Lab, layout: Layout, kills: int) -> str:
    """Start and kill so many controllers, then let one finish; return what was seen."""
    seed = random.randrange(1 << 30)
    killer, before = Killer(lab, layout, seed), left_in(lab)
    kept: dict[str, str] = {}
    plans: dict[Path, str] = {}
    for _ in range(kills):
        killer.kill_one()
        now = digests(layout, "killed")
        assert kept.items() <= now.items(), f"seed {seed}: a published trial changed"
        now_plans = {p: p.read_text() for p in layout.study_raw("killed").glob("*/plan.json")}
        assert plans.items() <= now_plans.items(), f"seed {seed}: a plan changed"
        kept, plans = now, now_plans
    last = loadbook(layout, "run", "killed", "--hosts", str(lab.hosts_file))
    _, err = last.communicate(timeout=900)
    assert last.returncode == 0, f"seed {seed}: {err}"
    assert kept.items() <= digests(layout, "killed").items()
    trials = sum(must_be_as_planned(layout, run) for run in layout.runs("killed"))
    checked = loadbook(layout, "verify", "killed")
    assert (checked.communicate(timeout=60), checked.returncode)[1] == 0
    wait_until(lambda: not at_work_in(lab), LEASE_S)
    assert left_in(lab) <= before
    gone = f"{len(killer.gone_s)} in mid-load, load gone after {max(killer.gone_s):.1f} s at most"
    return f"{trials} trials whole in spite of {kills} kills ({gone})"


def left_in(lab: Lab) -> set[Path]:
    """Return the folders of services in a lab, which other tests may have used before."""
    return set(lab.folder.glob("*/work/services/*"))


def must_be_as_planned(layout: Layout, run: str) -> int:
    """Assert that a run is whole, and as its study has it; return its number of trials."""
    paths = layout.run("killed", run)
    study = load_study(layout, "killed")
    planned = [t.trial for t in make_plan(study).trials]
    assert [t["trial"] for t in read_json(paths.plan_json)["trials"]] == planned
    assert [t["treatment"] for t in read_json(paths.plan_json)["trials"]] == [
        t.treatment for t in make_plan(study).trials
    ]
    must_be_whole(paths, planned)
    return len(planned)


def gone_after(lab: Lab) -> float:
    """Return the seconds until nothing of the killed controller's work is left on the hosts."""
    begun = time.monotonic()
    wait_until(lambda: not jobs_left(lab), LEASE_S)
    return time.monotonic() - begun


@pytest.mark.fault(1, 2)
def test_run_killed_ten_times_completes_its_plan(lab, layout, record_property):
    (layout.studies / "killed.toml").write_text(STUDY.format(blocks=2))
    record_property("seen", kill_many(lab, layout, 10))


@pytest.mark.fault(1, 2, 51)
def test_run_of_sixty_trials_killed_200_times_completes_its_plan(lab, layout, record_property):
    (layout.studies / "killed.toml").write_text(STUDY.format(blocks=30))
    record_property("seen", kill_many(lab, layout, 200))


@pytest.mark.fault(1)
def test_run_with_killed_jupyter_kernel_can_be_resumed(lab, layout, tmp_path):
    """Papermill, its kernel killed in mid-trial, then the same notebook again: the run is a process of its own."""
    (layout.studies / "killed.toml").write_text(STUDY.format(blocks=8))

    def notebook() -> subprocess.Popen[str]:
        words = ["-p", "study", "killed", "-p", "execute", "True", "-p", "hosts", str(lab.hosts_file)]
        command = [sys.executable, "-m", "papermill", "--no-progress-bar", "notebooks/run_study.ipynb"]
        return subprocess.Popen(
            [*command, str(tmp_path / "out.ipynb"), *words],
            cwd=layout.root, env=os.environ | {"LOADBOOK_HOME": str(layout.root)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    first = notebook()
    wait_until(lambda: list(layout.study_raw("killed").glob("*/trials/*")), 200)
    os.kill(kernel_of(first.pid), signal.SIGKILL)
    assert (first.communicate(timeout=60), first.returncode != 0)[1]
    kept = digests(layout, "killed")
    gone_after(lab)
    second = notebook()
    _, err = second.communicate(timeout=280)
    assert second.returncode == 0, err[-3000:]
    assert kept.items() <= digests(layout, "killed").items()
    (run,) = layout.runs("killed")
    must_be_whole(layout.run("killed", run), [f"t{k:04d}" for k in range(1, 17)])
    assert [e["event"] for e in read_ledger(layout.run("killed", run).ledger)].count("run-resumed") <= 1


def kernel_of(papermill: int) -> int:
    """Return the process id of papermill's kernel."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == papermill and b"ipykernel" in (stat.parent / "cmdline").read_bytes():
                return int(stat.parent.name)
        except OSError:
            continue
    raise AssertionError("papermill has no kernel")
