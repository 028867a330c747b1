"""Somebody else uses the hosts: said before the run, flagged on the trials that it met."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from loadbook.core.errors import UsageError
from loadbook.execution import background_load, session
from loadbook.execution.background_load import parse_background_load
from loadbook.execution.power import PowerForecast, noise_cost_text
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.execution.studies import load_study
from loadbook.hosts.host import CommandResult
from loadbook.study.plan import make_plan
from recorded_run import STUDY, with_studies
from replayable_project import replayable_project

IDLE = "cpu0 100 0 0 900 0 0 0 0 0 0\nagain\ncpu0 100 0 0 950 0 0 0 0 0 0\ncpus 0\nload 0.10\n"


@pytest.mark.fault(42)
def test_background_load_of_every_kind_is_reported():
    assert list(parse_background_load(IDLE, 0.1, 1)) == []
    busy = IDLE.replace("cpu0 100 0 0 950", "cpu0 140 0 0 910").replace("load 0.10", "load 3.20")
    busy += "connected 46A0 7\npackages dpkg\npackages apt-get\nnow 1795339185\n"
    printed = list(parse_background_load(busy + "timer apt-daily Sun 2026-11-22 09:49:45 UTC\n", 0.1, 1))
    assert printed == [
        "other programs use 80\xa0% of its CPU now. Results will be vague; `top` shows which.",
        "7 connections to port 18080 are open, which are not ours",
        "a package manager is at work: apt-get, dpkg",
        "apt-daily.timer starts a package manager in 30\xa0min, during the run: systemctl stop it",
    ]
    assert (
        list(parse_background_load(IDLE + "now 1795339185\ntimer apt-daily Sun 2026-11-22 09:49:45 UTC\n", 0.1, 0.4))
        == []
    )
    (loaded,) = parse_background_load(IDLE.replace("load 0.10", "load 9.5"), 0.1, 1)
    assert loaded.startswith("its load average is 9.5")
    of_two = "\n".join(line + (line.replace("cpu0", "\ncpu1") if "cpu0" in line else "") for line in IDLE.splitlines())
    assert list(parse_background_load(of_two.replace("load 0.10", "load 1.9"), 0.1, 1)) == []
    full = IDLE.replace("cpu0 100 0 0 950", "cpu0 200 0 0 900")
    (whole,) = parse_background_load(full, 0.1, 1)
    assert whole.startswith("other programs use the whole CPU now. ")
    half = "\n".join(line + (line.replace("cpu0", "\ncpu1") if "cpu0" in line else "") for line in full.splitlines())
    assert "use all 2 CPUs now" in next(parse_background_load(half.replace("cpus 0", "cpus 0-1"), 0.1, 1))
    half = half.replace("cpu1 200 0 0 900", "cpu1 100 0 0 1000").replace("cpus 0", "cpus 0-1")
    assert "use 1.0 of its 2 CPUs now" in next(parse_background_load(half, 0.1, 1))


def stat(pid: int, name: str, ticks: int, cpu: int) -> str:
    """Return a line of /proc/PID/stat (proc(5)): CPU time is in fields 14 and 15, the CPU in field 39."""
    return f"{pid} ({name}) R 1 1 1 0 -1 4194304 0 0 0 0 {ticks} 0 0 0 20 0 1 0 9 9 9 " + "0 " * 13 + f"17 {cpu} 0\n"


def test_program_that_uses_most_of_the_cpu_is_named_if_it_runs_where_the_service_does():
    def answer(*after: str) -> str:
        first = "cpu0 100 0 0 900 0 0 0 0 0 0\n" + stat(7, "web (1)", 500, 0) + stat(8, "kworker/u8:0", 900, 0)
        second = "cpu0 140 0 0 910 0 0 0 0 0 0\n" + "".join(after)
        return f"{first}again\n{second}cpus 0\nload 0.10\n"

    quiet = stat(8, "kworker/u8:0-flush", 900, 0)
    (printed,) = parse_background_load(answer(stat(7, "web (1)", 540, 0), quiet, stat(9, "elsewhere", 90, 1)), 0.1, 1)
    assert printed == "other programs use 80\xa0% of its CPU now, most of it web (1) (pid 7). Results will be vague."
    shared = [stat(7, "web (1)", 513, 0), quiet, stat(10, "cc", 13, 0), stat(11, "cc", 14, 0)]
    assert "`top` shows which" in next(parse_background_load(answer(*shared), 0.1, 1))


def test_another_run_on_the_machine_is_named_once_before_the_run(monkeypatch):
    watch = ["/bin/sh", "/l/web/work/bin/job-1.sh", "watch", "s", "120"]
    lock = ["/l/web/work/host.lock", "id", "bob@pc", "7", "ns:1", "lb", "run-1", "0", "\u2028load x"]
    answer = IDLE + "\t".join(["other_run", "bob", "60", *watch, *lock]) + "\n"
    done = CommandResult(0, answer.encode(), b"")
    monkeypatch.setattr(background_load, "run_background_load_script", lambda testbed, alias: done)
    plan = SimpleNamespace(study=SimpleNamespace(validity=SimpleNamespace(foreign_cpu=0.1)), hours=1)
    hosts = dict.fromkeys(("driver", "web"), SimpleNamespace(live=True))
    testbed: Any = SimpleNamespace(plan=plan, hosts=hosts, map=lambda call, keys: {key: call(key) for key in keys})
    ((alias, printed),) = background_load.background_load(testbed)
    assert (alias, printed.replace("\xa0", " ")) == (
        "driver",
        "on its machine is run run-1 of lb (user bob, process 7 of bob@pc, lab /l, for 60 s). "
        "The two loads disturb each other.",
    )


def test_busy_host_gives_a_warning_with_the_additional_blocks_and_a_question(tmp_path, monkeypatch):
    layout, hosts = replayable_project(tmp_path / "home")
    monkeypatch.setattr(session, "background_load", lambda testbed: iter([("web", "others use 0.8 of its 1 CPUs")]))
    events, questions = [], []

    def refuse(question):
        questions.append(question)
        return False

    with pytest.raises(UsageError, match="not started: other programs use the hosts") as refused:
        run_study(
            layout, RunRequest(STUDY, layout.root / hosts), on_event=lambda e: events.append(e.line()), confirm=refuse
        )
    assert questions == ["Other programs use these hosts. Start the run all the same?"]
    assert "--yes" in refused.value.hint and not layout.runs(STUDY)
    warnings = [line for line in events if line.startswith("warning: ")]
    assert warnings[0] == "warning: host web: others use 0.8 of its 1 CPUs"
    assert len(warnings) == 1  # no noise is recorded on these hosts


def test_noise_cost_is_four_times_the_blocks_at_twice_the_noise(tmp_path):
    plan = make_plan(load_study(with_studies(tmp_path / "home"), "aa"))
    forecast = PowerForecast(
        plan, 0.02, 0.05, 0.035, (0.03, 0.04), "recorded", None, None, 28, (20, 40), "unknown", 0.8
    )
    assert noise_cost_text(forecast).replace("\u00a0", " ") == (
        "at twice the noise recorded on these hosts, 2 % needs 110 blocks in place of 28"
    )
    assert noise_cost_text(replace(forecast, sd_range=None)) is None
