"""`loadbook plan` and `ingest` as a user types them, and what they say to a user who mistypes."""

from __future__ import annotations

import json
import re

import pytest

from command_line import exit_code
from recorded_run import STUDY, copy_recorded_run

FIVE_MISTAKES = """
schema = 1
name = "mistaken"
question = "Does it say everything that is wrong?"
baseline = "base"
blocks = 0

[roles.driver]
[roles.web]
service = "nginx"
vars = { worker_proceses = 2 }

[workload]
tool = "wrk"
duration_s = "long"

[treatments.one]
set = { nosuch = 1 }
"""


@pytest.fixture
def loadbook(tmp_path, monkeypatch, capsys):
    """Call the command line; returns exit code, stdout and stderr."""
    layout = copy_recorded_run(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))

    def call(*words):
        return (exit_code(monkeypatch, *words), *capsys.readouterr())

    call.layout = layout  # type: ignore[attr-defined]
    return call


def test_plan_reports_five_errors_with_key_paths(loadbook, tmp_path):
    (loadbook.layout.studies / "mistaken.toml").write_text(FIVE_MISTAKES)
    for command in (["plan"], ["run", "--hosts", str(tmp_path / "none.toml")]):
        code, out, err = loadbook(command[0], "mistaken", *command[1:])
        assert (code, out) == (2, "")
        printed = err.splitlines()
        assert printed[0].endswith("mistaken.toml: 5 problems")
        paths = {line.strip().split(":")[0] for line in printed[1:6]}
        assert paths == {
            "baseline", "blocks", "roles.web.vars.worker_proceses", "workload.duration_s", "treatments.one.set.nosuch",
        }  # fmt: skip


def test_plan_prints_trials_time_disk_and_detectable_difference(loadbook):
    code, out, _ = loadbook("plan", "aa", "--blocks", "10")
    assert code == 0
    assert "20: 10 blocks of baseline, again" in out
    assert "38\u00a0s" in out
    assert "assumed, 2.5\u00a0% per trial, as nothing is recorded on these hosts yet" in out
    assert "4 blocks are too few for a test" in loadbook("plan", "aa", "--blocks", "4")[1]
    assert "1 block is too few for a test" in loadbook("plan", "aa", "--blocks", "1")[1]
    assert "smoke: without " not in out and "smoke: without " in loadbook("plan", "page-size-tps-smoke")[1]
    plan = json.loads(loadbook("plan", "aa", "--json")[1])
    assert len(plan["trials"]) == 16
    assert 0.03 < plan["estimate"]["detectable"] < 0.06
    assert (plan["estimate"]["needed"], plan["estimate"]["needed_range"]) == (28, None)


def make_plain(layout, study):
    file = layout.studies / f"{study}.toml"
    file.write_text(f'execution = "plain"\n{file.read_text()}')


def test_plan_uses_the_noise_recorded_in_the_lab(loadbook):
    assert loadbook("ingest", STUDY)[0] == 0
    make_plain(loadbook.layout, STUDY)
    loads = {STUDY: "this load", "tool-agreement": "another load of wrk", "known-cost": "another tool"}
    for study, load in loads.items():
        out = loadbook("plan", study)[1]
        assert f"recorded with {load}" in out
        assert f"16 trials alike, run {loadbook.layout.resolve_run(STUDY)} of {STUDY}" in out


def test_plan_needs_fewer_blocks_for_a_larger_difference(loadbook):
    assert loadbook("ingest", STUDY)[0] == 0
    make_plain(loadbook.layout, STUDY)
    plans = [json.loads(loadbook("plan", STUDY, "--json", "--detect", d)[1])["estimate"] for d in ("0.02", "10%")]
    small, large = (plan["needed"] for plan in plans)
    assert small > large
    assert plans[0]["needed_range"][0] < small < plans[0]["needed_range"][1]
    assert plans[0]["detectable"] == plans[1]["detectable"]


@pytest.mark.parametrize("detect", ["0", "-1", "2", "3 percent", "nan", ""])
def test_plan_refuses_an_invalid_difference(loadbook, detect):
    code, out, err = loadbook("plan", "aa", f"--detect={detect}")
    assert (code, out) == (2, "")
    assert "is no difference" in err


def test_ingest_prints_where_the_tables_are(loadbook):
    code, out, _ = loadbook("ingest", STUDY)
    run = loadbook.layout.resolve_run(STUDY)
    assert code == 0
    assert out.splitlines()[1:] == [f"run {run}", f"tables {loadbook.layout.run(STUDY, run).processed}"]
    assert loadbook("ingest", STUDY, "--run", "nope")[0] == 2
    assert loadbook("ingest", "nosuch")[0] == 2


def test_missing_hosts_file_is_a_usage_error(loadbook, tmp_path):
    code, _, err = loadbook("run", "aa", "--hosts", str(tmp_path / "none.toml"))
    assert code == 2
    assert "hosts file" in err
    assert loadbook.layout.runs("aa") == []


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [('tool = "wrk"', 'tool = "nosuch"', "workload.tool"), ("duration_s = 1\n", "duration_s = 1.5\n", "workload")],
)
def test_plan_refuses_a_load_that_the_tool_cannot_generate(loadbook, old, new, path):
    file = loadbook.layout.studies / "nginx-directives.toml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    code, out, err = loadbook("plan", "nginx-directives")
    assert (code, out) == (2, "")
    problems = err.partition("1 problem")[2].splitlines()
    assert problems[1].strip().startswith(f"{path}: ")


def test_run_without_valid_trials_fails_with_the_reason(loadbook):
    run = loadbook.layout.run("recorded", loadbook.layout.resolve_run("recorded"))
    for file in run.trials.glob("*/stdout-*"):
        file.write_bytes(file.read_bytes()[:100])
    code, out, err = loadbook("ingest", "recorded")
    assert (code, out) == (4, "")
    assert "no trial of run" in err
    assert "recorded file changed" in err


def test_run_prints_the_number_of_excluded_trials(loadbook):
    run = loadbook.layout.run("recorded", loadbook.layout.resolve_run("recorded"))
    next(run.trials.glob("*/stdout-*")).write_bytes(b"Running 1s test")
    code, out, _ = loadbook("ingest", "recorded")
    assert code == 0
    assert re.search(r"trials are valid \(.*1 trial: recorded file changed[;)]", out)
