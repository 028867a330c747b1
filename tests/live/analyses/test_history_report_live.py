"""The page of a history beside the report: made of two runs or more, linked, and a failure like any other."""

from __future__ import annotations

import pytest

from loadbook.report import build as history_report
from loadbook.report.kernel import SharedKernel
from many_runs import STUDY, nights


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return nights(tmp_path_factory.mktemp("two"), 2)


def made(layout, printed):
    with SharedKernel() as kernel:
        return history_report.build_history_page(layout, STUDY, "Which one?", printed.append, 120, kernel)


def test_history_page_of_two_runs_has_figure_and_links(two, monkeypatch):
    monkeypatch.setenv("LOADBOOK_HOME", str(two.root))
    printed = []
    (page,), failed = made(two, printed)
    assert failed == []
    assert printed == ["notebook history, 2 runs"]
    html = page.read_text(encoding="utf-8")
    assert html.count("data:image/svg+xml,") == 1
    assert "<script" not in html
    assert "Did the conclusion change, and what else changed with it?" in html
    assert "4 earlier runs" in html
    assert f'href="{STUDY}.html"' in html
    assert history_report.history_link(STUDY, two.reports) == [("history", f"{STUDY}-history.html")]
