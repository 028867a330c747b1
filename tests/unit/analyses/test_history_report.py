"""The page of a history beside the report: made of two runs or more, linked, and a failure like any other."""

from __future__ import annotations

import json

import pytest

from loadbook.batch import index
from loadbook.core.errors import ReportError
from loadbook.report import build, html
from loadbook.report import build as history_report
from loadbook.report.kernel import SharedKernel
from loadbook.store.trial_record import read_json
from many_runs import STUDY, nights


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return nights(tmp_path_factory.mktemp("two"), 2)


def made(layout, printed):
    with SharedKernel() as kernel:
        return history_report.build_history_page(layout, STUDY, "Which one?", printed.append, 120, kernel)


def test_history_page_is_not_made_for_one_run(tmp_path):
    layout, printed = nights(tmp_path, 1), []
    assert made(layout, printed) == ([], [])
    assert printed == []
    assert history_report.history_link(STUDY, layout.reports) == []


def test_failed_history_page_is_reported_and_the_old_one_removed(two, monkeypatch):
    def fail(*what):
        raise ReportError("notebook history: cell 4 failed")

    monkeypatch.setattr(history_report.notebooks, "execute_notebook", fail)
    two.reports.mkdir(exist_ok=True)
    (two.reports / f"{STUDY}-history.html").write_text("old")
    assert made(two, []) == ([], ["notebook history: cell 4 failed"])
    assert history_report.history_link(STUDY, two.reports) == []


def test_report_command_makes_and_links_the_history_page(two, monkeypatch):
    page = two.reports / f"{STUDY}-history.html"
    monkeypatch.setattr(history_report, "build_history_page", lambda *what: ([page], []))
    monkeypatch.setattr(build, "_build_page", lambda *what: None)
    built = build.build_report(two, STUDY, "latest", [], lambda text: None)
    assert page in built.pages
    assert read_json(two.reports / f"{STUDY}{html.SUMMARY_SUFFIX}")["more"] == {"history": page.name}
    assert page.name in index.write_index(two.reports).read_text(encoding="utf-8")


def test_failed_history_page_fails_the_report(two, monkeypatch):
    monkeypatch.setattr(history_report, "build_history_page", lambda *what: ([], ["notebook history: cell 4 failed"]))
    monkeypatch.setattr(build, "_build_page", lambda *what: None)
    built = build.build_report(two, STUDY, "latest", [], lambda text: None)
    assert built.failed == ["notebook history: cell 4 failed"]
    kept = json.loads((two.reports / f"{STUDY}{html.SUMMARY_SUFFIX}").read_text())
    assert kept["failed"] == built.failed
