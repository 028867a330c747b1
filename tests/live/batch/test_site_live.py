"""`loadbook report --all`: every smoke study run (a recorded run played back), every report, what is lacking."""

from __future__ import annotations

import json
import shutil

import pytest

from loadbook.store.paths import Layout
from recorded_run import FIXTURE, REPO, STUDIES
from report_maker import make_report

HOSTS = next(FIXTURE.iterdir()) / "hosts.toml"
NAME = "nginx-directives-smoke"


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """A project with a study that the recording can play, one that it cannot, a torn one and a variant."""
    here = Layout(tmp_path_factory.mktemp("site"))
    here.studies.mkdir()
    shutil.copytree(REPO / "notebooks", here.notebooks)
    text = (STUDIES / "nginx-directives.toml").read_text()
    kept = text.replace('notebooks = ["config_effects", "run_quality"]', 'notebooks = ["run_quality"]')
    (here.studies / "nginx-directives.toml").write_text(kept)
    other = kept.replace('name = "nginx-directives"', 'name = "other"').replace('tool = "wrk"', 'tool = "ab"')
    (here.studies / "other.toml").write_text(other)
    (here.studies / "torn.toml").write_text('name = "torn"\nquestion = "Is it whole?"\n')
    (here.studies / "wide.toml").write_text('include = "nginx-directives.toml"\nname = "wide"\nblocks = 40\n')
    return here


@pytest.fixture(scope="module")
def site(layout):
    return make_report(layout, "--all", "--hosts", str(HOSTS), "--jobs", "1")


def test_report_all_lists_every_study_with_duration_or_reason_of_failure(site):
    assert site.exit_code == 3
    said = {line.split("\t")[0]: line.split("\t")[1] for line in site.output.splitlines() if "\t" in line}
    assert list(said) == [NAME, "other-smoke", "torn-smoke"]
    assert said[NAME].startswith("run ")
    assert said["other-smoke"].startswith("not run: ")
    assert "torn.toml: " in said["torn-smoke"]
    assert "more)" in said["torn-smoke"]
    assert site.output.splitlines()[-1].startswith("runs ")


def test_report_all_index_lists_pages_and_missing_ones(site):
    page = site.page("index.html")
    assert f'href="{NAME}.html"' in page
    assert "ran and reported 1 of 3 smoke studies" in page
    assert "<b>other-smoke</b>" in page
    parts = {part["study"]: part for part in json.loads((site.layout.reports / "site.json").read_text())["parts"]}
    assert parts[NAME]["reported_s"] > 0
    assert parts["torn-smoke"]["lacks"]


def test_report_all_repeats_only_changed_or_requested_studies(site, layout, monkeypatch):
    ran = []
    monkeypatch.setattr("loadbook.batch.site.run_study", lambda layout, name, *rest, **how: ran.append((name, how)))
    monkeypatch.setattr("loadbook.batch.site.build_report", lambda *rest: pytest.fail("not asked for"))
    from loadbook.batch.site import run_smoke_studies

    def names(new=False):
        ran.clear()
        list(run_smoke_studies(layout, HOSTS, new, print, print))
        return [(name, how["new"]) for name, how in ran]

    assert names() == [("other-smoke", False)]
    assert names(new=True) == [(NAME, True), ("other-smoke", True)]
    file = layout.studies / "nginx-directives.toml"
    file.write_text(file.read_text().replace("margin = 0.02", "margin = 0.03"))
    assert names() == [(NAME, True), ("other-smoke", False)]
