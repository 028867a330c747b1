"""Lines of JSON that `--events` prints: their order, their fields, and how errors and Ctrl-C end them."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from batch_workers import REPLAY
from command_line import exit_code
from loadbook.cli import events, terminal
from loadbook.core.errors import HostError
from loadbook.report import build
from recorded_run import INCLUDED, STUDIES, STUDY, ingested_run, with_studies


@pytest.fixture
def project(tmp_path, monkeypatch):
    home = with_studies(tmp_path)
    for name in (INCLUDED, f"{STUDY}.toml"):
        (home.studies / name).write_text((STUDIES / name).read_text())
    monkeypatch.setenv("LOADBOOK_HOME", str(home.root))
    return home


def messages_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_events_of_a_run_are_lines_of_json_in_order(project, monkeypatch, capsys):
    assert exit_code(monkeypatch, "run", STUDY, "--hosts", str(REPLAY), "--blocks", "1", "--events", "--estimates") == 0
    messages = messages_of(capsys.readouterr().out)
    kinds = [message["kind"] for message in messages]
    assert (kinds[0], messages[0]["format"], kinds[-2:]) == ("started", 1, ["estimates", "ran"])
    assert kinds.count("trial-started") == kinds.count("trial-ended") == 4
    assert len({message["pid"] for message in messages}) == 1
    assert sorted(message["at"] for message in messages) == [message["at"] for message in messages]
    assert messages[-1]["run"] == project.runs(STUDY)[0]
    (estimates,) = [message["estimates"] for message in messages if message["kind"] == "estimates"]
    assert all(set(one) == {"label", "change", "blocks"} and one["blocks"] == 1 for one in estimates) and estimates


def test_events_without_estimates_ingest_only_at_the_end(project, monkeypatch, capsys):
    monkeypatch.setattr(events, "_estimates", lambda *_: pytest.fail("no one reads them"))
    assert exit_code(monkeypatch, "run", STUDY, "--hosts", str(REPLAY), "--blocks", "1", "--events") == 0
    assert [one["kind"] for one in messages_of(capsys.readouterr().out)][-2:] == ["trial-ended", "ran"]


def test_events_of_a_report_end_with_its_summary(tmp_path, monkeypatch, capsys):
    home = ingested_run(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(home.root))
    page = tmp_path / "pages" / "one.html"

    def built(layout: Any, study: str, run: str, *rest: Any) -> build.BuiltReport:
        assert (rest[1], rest[2]) == (page, "Batch n")
        rest[3]("notebook x")
        return build.BuiltReport(study, run, {"valid": 4}, files={"x": (page, None)}, failed=["y: lost"])

    monkeypatch.setattr(build, "build_report_to", built)
    words = ("report", STUDY, "--events", "--to", str(page), "--home", "Batch n")
    assert exit_code(monkeypatch, *words) == 3
    _, note, last = messages_of(capsys.readouterr().out)
    assert (note["kind"], note["message"]) == ("note", "notebook x")
    assert (last["kind"], last["summary"], last["failed"]) == ("reported", {"valid": 4}, ["y: lost"])
    assert last["files"] == {"x": [str(page), None]}


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (HostError("web", "gone", "look"), 3, "look"),
        (OSError("odd"), 3, None),
        (ValueError("torn"), 3, events.DEFECT_HINT),
        (OSError(28, "No space left on device"), 3, "free"),
    ],
)
def test_error_is_the_last_line_and_its_exit_code(capsys, error, code, hint):
    with pytest.raises(SystemExit) as stop, events.event_lines(False):
        print("not for programs")
        raise error
    out, err = capsys.readouterr()
    last = messages_of(out)[-1]
    assert (stop.value.code, last["exit_code"], last["kind"]) == (code, code, "failed")
    assert str(hint) in str(last["hint"]) and "not for programs" in err
    assert ("Traceback" in err) == isinstance(error, ValueError)


def test_interrupt_is_the_last_line_and_handlers_are_put_back(capsys):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stop, events.event_lines(False):
        signal.raise_signal(signal.SIGTERM)
    assert (stop.value.code, messages_of(capsys.readouterr().out)[-1]["kind"]) == (130, "stopped")
    assert signal.getsignal(signal.SIGTERM) is before


def test_number_that_json_does_not_know_is_null():
    assert json.loads(terminal.json_line({"a": [float("nan"), float("inf"), 1.0]})) == {"a": [None, None, 1.0]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", STUDY, "--attached"), "--attached goes with --events"),
        (("run", STUDY, "--estimates"), "--estimates goes with --events"),
        (("run", STUDY, "--events", "--json"), "both print to stdout"),
        (("run", STUDY, "--events", "--dry-run"), "--dry-run prints commands"),
        (("report", STUDY, "--to", "page.txt"), "no page of one run"),
        (("report", STUDY, "--to", "page.html", "--against", "previous"), "without --against"),
        (("report", "--all", "--events"), "none of the other options"),
        (("report", "a", "b", "--events"), "exactly one STUDY"),
    ],
)
def test_options_that_contradict_one_another_are_refused(project, monkeypatch, capsys, words, message):
    assert exit_code(monkeypatch, *words) == 2
    assert message in capsys.readouterr().err
