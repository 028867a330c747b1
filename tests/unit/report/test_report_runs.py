"""`loadbook report` takes the newest finished run, and keeps the pages of the run that it reported before."""

import json
from dataclasses import replace

import pytest

from loadbook.analyses.effects.page import EffectsPage
from loadbook.batch.index import write_index
from loadbook.report import build
from loadbook.report.build import select_run
from loadbook.report.html import earlier_pages, keep_other_pages, write_summary
from loadbook.store.atomic import hold_study_lock
from loadbook.store.ledger import Ledger
from loadbook.store.tables import load_run
from unfinished_runs import NEW, OLD, project_of_two_runs


@pytest.fixture
def two_runs(tmp_path):
    return project_of_two_runs(tmp_path)


def test_report_command_skips_and_names_an_interrupted_run(two_runs):
    assert select_run(two_runs, "quick") == (OLD, NEW)
    assert select_run(two_runs, "quick", NEW) == (NEW, None)


def test_report_command_uses_the_newest_run_if_none_is_finished(two_runs):
    record = two_runs.run("quick", OLD).run_json
    record.write_text(json.dumps(json.loads(record.read_text()) | {"ended": None}))
    assert select_run(two_runs, "quick") == (NEW, None)


def test_pages_of_an_earlier_run_are_kept_with_its_id_and_updated_links(tmp_path):
    (tmp_path / "s.html").write_text('<a href="s-quality.html">q</a> <a href="index.html">i</a> old')
    (tmp_path / "s-quality.html").write_text('<a href="s.html">verdicts</a>')
    (tmp_path / "s-history.html").write_text("all runs")
    old = {
        "study": "s",
        "run": OLD,
        "page": "s.html",
        "more": {"quality": "s-quality.html", "history": "s-history.html"},
    }
    write_summary(tmp_path, old | {"question": "Q?", "started": 1.0, "ended": 2.0})
    keep_other_pages(tmp_path, "s", OLD)
    assert earlier_pages(tmp_path, "s", NEW) == []
    keep_other_pages(tmp_path, "s", NEW)
    assert earlier_pages(tmp_path, "s", NEW) == [(f"run {OLD}", f"s-{OLD}.html")]
    assert f'href="s-quality-{OLD}.html"' in (tmp_path / f"s-{OLD}.html").read_text()
    assert f'href="s-{OLD}.html"' in (tmp_path / f"s-quality-{OLD}.html").read_text()
    assert not (tmp_path / f"s-history-{OLD}.html").exists()
    write_summary(tmp_path, old | {"run": NEW, "question": "Q?", "started": 1.0, "ended": 2.0})
    assert f'<a class="soft" href="s-{OLD}.html">run {OLD}</a>' in write_index(tmp_path).read_text()
    keep_other_pages(tmp_path, "s", OLD)
    assert earlier_pages(tmp_path, "s", OLD) == [(f"run {NEW}", f"s-{NEW}.html")]


def interrupt(layout, run, planned=18):
    """Make the run one that was interrupted: of its trials the last five are not done."""
    paths = layout.run("quick", run)
    changes = {"ended": None, "lab": False, "hosts_file": "my hosts.toml"}
    paths.run_json.write_text(json.dumps(json.loads(paths.run_json.read_text()) | changes))
    with Ledger(paths.ledger) as ledger:
        for number in range(1, planned - 4):
            ledger.append("started", trial=f"t{number:04}", attempt=1)
            ledger.append("ended", trial=f"t{number:04}", attempt=1, status="ok", final=True)


RESUME = "loadbook run quick --hosts 'my hosts.toml'"


def test_report_of_an_interrupted_run_first_says_how_far_it_is_and_which_command_goes_on(two_runs, monkeypatch):
    messages = []
    monkeypatch.setattr(build, "build_report_at", lambda *args: build.BuiltReport("quick", args[2], {"study": "quick"}))
    monkeypatch.setattr(build, "build_history_page", lambda *_: messages.append("history") or ([], []))
    interrupt(two_runs, NEW)
    build.build_report(two_runs, "quick", NEW, (), messages.append)
    assert messages == [f"interrupted at block 5 of 6; `{RESUME}` goes on", "history"]
    messages.clear()
    with hold_study_lock(two_runs.study_raw("quick")):
        build.build_report(two_runs, "quick", NEW, (), messages.append)
    assert messages[0] == "still going on, at block 5 of 6"


def test_headline_of_an_interrupted_run_without_comparison_says_how_far_it_is(two_runs):
    interrupt(two_runs, NEW)
    data = load_run(two_runs, "quick", NEW)
    page = EffectsPage(replace(data, trials=data.trials[data.trials["slot"] <= 7]))
    assert page.answer_summary().headline == f"No verdict: interrupted at block 3 of 6; `{RESUME}` goes on."
    assert page.summary()["next"] == RESUME
    cancelled = data.trials.assign(status=["cancelled" if slot == 7 else "ok" for slot in data.trials["slot"]])
    last = replace(data, trials=cancelled[cancelled["slot"] <= 7])
    assert "interrupted at block 3 of 6" in EffectsPage(last).answer_summary().headline
    done = EffectsPage(load_run(two_runs, "quick", OLD))
    assert "interrupted" not in done.answer_summary().headline
