"""`loadbook history`: every run is told, and the newest is held against its past."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import many_runs
from command_line import exit_code
from loadbook.store.paths import Layout
from many_runs import BEGIN, DAY, STUDY, add, nights


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Five nights of one effect, read once: what they found is remembered."""
    from loadbook.analyses.history.runs import read_history

    layout = nights(tmp_path_factory.mktemp("base"), 5)
    read_history(layout, STUDY, lambda done, total: None)
    return layout.root


@pytest.fixture(scope="module")
def steady(base, tmp_path_factory):
    """The five, and two more with another kernel."""
    root = tmp_path_factory.mktemp("steady") / "home"
    shutil.copytree(base, root)
    for night in (5, 6):
        add(root, BEGIN + night * DAY, change=many_runs.kernel)
    return root


@pytest.fixture
def five(base, tmp_path):
    """The five nights, to add to."""
    shutil.copytree(base, tmp_path / "home")
    return tmp_path / "home"


def night(root, number, effect=0.03, **other):
    """Add the night of this number, counted from 0."""
    return add(root, BEGIN + number * DAY, effect, **other)


def history(monkeypatch, capsys, root, *words):
    monkeypatch.setenv("LOADBOOK_HOME", str(root))
    code = exit_code(monkeypatch, "history", STUDY, *words)
    return code, *capsys.readouterr()


def reported(monkeypatch, capsys, root, *words):
    code, out, _ = history(monkeypatch, capsys, root, "--json", *words)
    assert code == 0
    return json.loads(out)


def course(printed, treatment="tcp-nopush"):
    return next(one for one in printed["comparisons"] if one["treatment"] == treatment)


def test_history_command_without_alarm_exits_with_0(steady, monkeypatch, capsys):
    code, out, _ = history(monkeypatch, capsys, steady, "--alarm")
    assert code == 0
    assert "The newest run is not shown to be worse than its past" in out
    assert "would be one, by its 6 runs before it" in out
    assert "1 in 100 raises a false alarm in its comparison: about 3.6 in a year of nightly runs" in out


def test_history_command_alarm_exits_with_1(five, monkeypatch, capsys):
    night(five, 5, -0.25)
    code, out, _ = history(monkeypatch, capsys, five, "--alarm")
    assert code == 1
    assert "The newest run is worse than its past: tcp_nopush on." in out
    assert "ALARM: the newest run gives −2" in out
    assert history(monkeypatch, capsys, five)[0] == 0, "only --alarm speaks by the exit code"


def test_history_json_has_runs_effects_levels_and_alarms(steady, monkeypatch, capsys):
    printed = reported(monkeypatch, capsys, steady)
    assert [run["left_out"] for run in printed["runs"]] == [None] * 7
    assert [bool(run["conditions_changed"]) for run in printed["runs"]] == [False] * 5 + [True, False]
    assert "kernel 6.1.0-31-amd64 → 6.12.0" in printed["runs"][5]["conditions_changed"][0]
    found = course(printed)
    assert len(found["points"]) == 7
    assert found["alarm"]["past"] == 6
    assert found["alarm"]["limit"] < found["alarm"]["effect"]
    assert not printed["alarm"]
    assert course(printed, "aa")["alarm"] is None


def test_history_command_with_one_run_has_no_alarm(tmp_path, monkeypatch, capsys):
    nights(tmp_path, 1)
    code, out, _ = history(monkeypatch, capsys, tmp_path, "--alarm")
    assert code == 0
    assert out.startswith(f"{STUDY}: 1 run, and no history yet: an alarm needs ") and out.count("\n") == 1
    assert "an alarm needs 5 that count" in out


@pytest.mark.parametrize(
    ("change", "printed"),
    [
        ({"change": many_runs.replay}, "a replay of run 20260101-010000: nothing was measured anew"),
        ({"change": many_runs.imported}, "imported without times: when it was measured is not known"),
        ({"ended": False}, "not finished"),
    ],
)
def test_history_command_lists_runs_that_do_not_count(five, monkeypatch, capsys, change, printed):
    run = night(five, 5, -0.25, **change)
    code, out, err = history(monkeypatch, capsys, five, "--alarm")
    assert f"left out: {run}: {printed}" in out
    assert code == 4
    assert f"run {run} cannot be held against its past" in err


def test_history_command_reports_a_damaged_run_and_continues(five, monkeypatch, capsys):
    layout = Layout(five)
    damaged = layout.run(STUDY, layout.runs(STUDY)[2])
    damaged.plan_json.write_text("{")
    torn = layout.run(STUDY, layout.runs(STUDY)[3])
    torn.table("measurements").write_bytes(b"PAR1")
    printed = reported(monkeypatch, capsys, five)
    assert "cannot be read" in printed["runs"][2]["left_out"]
    assert "no tables" in printed["runs"][3]["left_out"]
    assert len(course(printed)["points"]) == 3


def test_history_command_separates_machines_unless_by_name_is_given(five, monkeypatch, capsys):
    night(five, 5, machine="another")
    printed = reported(monkeypatch, capsys, five)
    assert [run["hosts"] for run in printed["runs"]] == [0] * 5 + [1]
    assert printed["runs"][5]["conditions_changed"] == [], "no hairline between runs of other hosts"
    assert course(printed)["alarm"] is None
    assert "there is none, 4 more runs will do" in course(printed)["no_alarm_possible"]
    by_name = reported(monkeypatch, capsys, five, "--by-name")
    assert course(by_name)["alarm"]["past"] == 5


def test_history_separates_runs_with_a_different_margin(five, monkeypatch, capsys):
    night(five, 5, change=many_runs.margin)
    printed = reported(monkeypatch, capsys, five)
    assert course(printed)["alarm"] is None
    assert printed["runs"][-1]["conditions_changed"] == ["margin 0.02 → 0.05"]


def test_history_caches_effects_until_tables_change(steady, monkeypatch, capsys):
    reported(monkeypatch, capsys, steady)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loadbook.analyses.history.runs._compute_effects", lambda *what: pytest.fail("computed again"))
        before = reported(monkeypatch, capsys, steady)
    layout = Layout(steady)
    table = layout.run(STUDY, layout.runs(STUDY)[0]).table("measurements")
    with pytest.MonkeyPatch.context() as patch:
        seen = []
        from loadbook.analyses.history import runs

        computed = runs._compute_effects
        patch.setattr(runs, "_compute_effects", lambda *what: seen.append(what) or computed(*what))
        table.touch()
        assert reported(monkeypatch, capsys, steady) == before
        assert len(seen) == 1


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--rate", "0"], "not above 0"),
        (["--rate", "0.5"], "at most 0.2"),
        (["--metric", "speed"], "no metric 'speed'"),
    ],
)
def test_history_command_refuses_wrong_options(steady, monkeypatch, capsys, words, printed):
    code, _, err = history(monkeypatch, capsys, steady, *words)
    assert code == 2
    assert printed in err


DOCUMENT = Path(__file__).parents[3] / "docs/history.md"
COMMANDS = re.findall(
    r"^loadbook history nginx-directives *([^#\n]*)", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE
)


@pytest.mark.parametrize("words", COMMANDS, ids=[words.strip() or "alone" for words in COMMANDS])
def test_commands_in_the_history_documentation_run(steady, monkeypatch, capsys, words):
    code, out, _ = history(monkeypatch, capsys, steady, *words.split())
    assert code == 0
    assert out


def test_history_command_of_an_unknown_study_names_the_next_step(steady, monkeypatch, capsys):
    monkeypatch.setenv("LOADBOOK_HOME", str(steady))
    assert exit_code(monkeypatch, "history", "nothing") == 2
    assert "nothing" in capsys.readouterr().err


def test_history_in_a_notebook_gives_frames_sentences_and_figure(steady, monkeypatch):
    import loadbook as lb

    monkeypatch.setenv("LOADBOOK_HOME", str(steady))
    found = lb.history(STUDY)
    assert len(found.frame) == 14
    assert list(found.runs["left_out"]) == [""] * 7
    assert found.sentences[0].startswith("tcp_nopush on stands at +")
    assert found.sentences[0] in repr(found)
    assert found.plot().answer == "The newest run is not shown to be worse than its past; no change is visible."
    assert "answer" in found._repr_html_()
