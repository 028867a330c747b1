"""`loadbook report` takes the newest finished run, and keeps the pages of the run that it reported before."""

import json

import pytest

from loadbook.batch.index import write_index
from loadbook.report.build import select_run
from loadbook.report.html import earlier_pages, keep_other_pages, write_summary
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
