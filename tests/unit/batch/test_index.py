"""The index has one row per study: that of its newest run, whether `loadbook report` or a batch made its page."""

from __future__ import annotations

from typing import Any

from bs4 import BeautifulSoup

from loadbook.batch.index import _read_batches, write_batch_page, write_index
from loadbook.batch.jobs import BatchRun, EntryRecord
from loadbook.core import clock
from loadbook.report.html import write_summary
from loadbook.report.strips import summary_strip

VERDICT = {"kind": "better", "word": "faster", "glyph": "▲"}


def summary(run: str, started: float, sentence: str) -> dict[str, Any]:
    verdict = VERDICT | {"sentence": sentence}
    facts = {"question": "Is a faster?", "valid": 4, "planned": 4, "ended": started + 60}
    return {"study": "a", "run": run, "started": started, "page": f"{run}.html", "verdict": verdict} | facts


def write_batch(reports, entry_summary: dict[str, Any], **entry: Any) -> None:
    record = EntryRecord(name="a", identity="a", study="a", question="?", hosts="lab", state="done", **entry)
    record.summary = entry_summary
    BatchRun(batch="nightly", file="nightly.toml", began=clock.now(), entries=[record]).write(
        reports / "batch" / "nightly"
    )


def test_index_shows_the_newer_run_of_a_batch_and_links_its_page(tmp_path):
    (tmp_path / "batch" / "nightly").mkdir(parents=True)
    write_summary(tmp_path, summary("old", 1_000.0, "a is slower."))
    write_batch(tmp_path, summary("new", 2_000.0, "a is faster."))
    page = write_index(tmp_path).read_text()
    assert "a is faster." in page and "a is slower." not in page
    assert 'href="batch/nightly/new.html"' in page
    write_summary(tmp_path, summary("newest", 3_000.0, "a is equivalent."))
    assert "a is equivalent." in write_index(tmp_path).read_text()


def test_batch_entry_with_own_parameters_is_not_shown_as_the_verdict_of_the_study(tmp_path):
    (tmp_path / "batch" / "nightly").mkdir(parents=True)
    write_summary(tmp_path, summary("old", 1_000.0, "a is slower."))
    write_batch(tmp_path, summary("new", 2_000.0, "a is faster."), parameters={"metric": "latency"})
    assert "a is slower." in write_index(tmp_path).read_text()


EFFECT = {
    "sentence": "▲ a is faster.", "kind": "better", "glyph": "▲", "change": 0.06, "low": 0.05, "high": 0.07,
    "margin": [-0.02, 0.02], "text": "a: faster, +6 % (+5 to +7 %)",
}  # fmt: skip


def test_index_and_batch_page_show_the_interval_of_the_first_treatment_alike(tmp_path):
    (tmp_path / "batch" / "nightly").mkdir(parents=True)
    displayed = summary("new", 2_000.0, "a is faster.") | {"effects": [EFFECT]}
    write_summary(tmp_path, displayed)
    write_batch(tmp_path, displayed)
    (run,) = [run for _, run in _read_batches(tmp_path)]
    pages = [write_index(tmp_path).read_text(), write_batch_page(tmp_path / "batch" / "nightly", run).read_text()]
    found = [BeautifulSoup(page, "html.parser").select("td .strip") for page in pages]
    assert found[0] == found[1] == [BeautifulSoup(summary_strip(displayed), "html.parser").span]
    assert found[0][0]["aria-label"] == EFFECT["text"]
    assert all("Strip beside a verdict" in page for page in pages)


def test_index_shows_the_summary_of_an_earlier_version_without_a_strip(tmp_path):
    write_summary(tmp_path, summary("old", 1_000.0, "a is slower."))
    page = write_index(tmp_path).read_text()
    assert "a is slower." in page
    assert 'class="strip' not in page and "Strip beside" not in page
