"""Two labs on one machine: their runs do not meet each other's servers, and each run names the other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from controller_processes import loadbook
from lab_study import ON_A_BUSY_MACHINE
from loadbook.hosts.lab import Lab
from loadbook.hosts.other_runs import OTHER_RUNS_SCRIPT, OtherRun, parse_other_runs
from loadbook.store.paths import Layout
from loadbook.store.trial_record import TrialRecord, read_trial
from recorded_run import with_studies

STUDY = (
    """
include = "aa.toml"
name = "{name}"
execution = "{execution}"
blocks = {blocks}
"""
    + ON_A_BUSY_MACHINE
)


@pytest.fixture
def projects(tmp_path):
    """Two projects, each with a lab of its own and a study of its name: a long one, and a short interleaved one."""
    made = {name: with_studies(tmp_path / name) for name in ("first", "second")}
    for name, layout in made.items():
        execution, blocks = ("plain", 8) if name == "first" else ("interleaved", 1)
        (layout.studies / f"{name}.toml").write_text(STUDY.format(name=name, execution=execution, blocks=blocks))
    yield made
    for layout in made.values():
        Lab.load(layout.lab).down()


def records(layout: Layout, study: str) -> list[TrialRecord]:
    paths = layout.run(study, layout.resolve_run(study))
    return [read_trial(path.parent) for path in sorted(paths.trials.glob("*/trial.json"))]


def subnet(layout: Layout) -> str:
    hosts = json.loads((layout.lab / "lab.json").read_text())["hosts"].values()
    (own,) = {host["address"].rpartition(".")[0] for host in hosts}
    return own


def test_runs_in_two_labs_at_the_same_time_measure_their_own_servers_and_name_each_other(projects, record_property):
    first = loadbook(projects["first"], "run", "first")
    try:
        for line in first.stderr:
            if "t0001" in line:
                break
        second = loadbook(projects["second"], "run", "second")
        _, reported = second.communicate(timeout=200)
        assert second.returncode == 0, reported
    finally:
        _, rest = first.communicate(timeout=200)
    assert first.returncode == 0, rest
    assert subnet(projects["first"]) != subnet(projects["second"])

    (sentence,) = [line for line in reported.splitlines() if f"process {first.pid} of " in line]
    assert sentence.startswith("warning: host driver: on its machine is run ")
    assert f" of first (user {Path(projects['first'].root).owner()}, " in sentence
    assert f", lab {projects['first'].lab}, for " in sentence
    assert sentence.endswith("The two loads disturb each other.")
    record_property("seen", sentence)

    all_trials = {name: records(layout, name) for name, layout in projects.items()}
    assert {name: len(trials) for name, trials in all_trials.items()} == {"first": 16, "second": 2}
    for name, trials in all_trials.items():
        assert all(service.live for trial in trials for service in trial.services), name
    for name, pid in (("first", second.pid), ("second", first.pid)):
        named = [run for trial in all_trials[name] for runs in trial.other_runs.values() for run in runs]
        assert any(f"process {pid} of " in run for run in named), named


def other_runs(shell: list[str], study: str) -> list[OtherRun]:
    done = subprocess.run([*shell, "-c", OTHER_RUNS_SCRIPT], capture_output=True, text=True, timeout=20, check=False)
    assert done.stderr == ""
    return [run for run in parse_other_runs(done.stdout) if run.study == study]


@pytest.mark.root
@pytest.mark.parametrize("shell", (["dash"], ["bash", "--posix"], ["busybox", "sh"]), ids=" ".join)
def test_user_of_another_run_is_told_by_the_kernel(shell):
    """What another user makes up is shown with that user's name, and cannot end a line."""
    folder = Path(tempfile.mkdtemp())
    script, study = folder / "bin/job-1.sh", f"made-up-{os.getpid()}"
    try:
        folder.chmod(0o755)
        script.parent.mkdir(mode=0o755)
        script.write_text("read -r line\n")
        words = [str(script), "watch", "s", "120", "/home/root/lab/web/work/host.lock", "id", "root@here", "1", "ns:1"]
        command = ["setpriv", "--reuid=65534", "--clear-groups", "/bin/sh", *words, study, "x\nother_run\ty", "0"]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            process_name = Path(f"/proc/{process.pid}/comm")
            while process_name.read_text() != "sh\n":  # setpriv has not started it yet
                assert process.poll() is None
            (found,) = other_runs(shell, study)
            process.stdin.close()
        assert (found.user, found.controller, found.pid) == ("nobody", "root@here", 1)
        assert (found.run, found.lab) == ("x?other_run?y", "/home/root/lab")
        assert 0 <= found.age_s < 60
    finally:
        shutil.rmtree(folder)
    assert other_runs(shell, study) == []
