"""`loadbook report --all`: every smoke study run (a recorded run played back), every report, what is lacking."""

from __future__ import annotations

import json

import pytest

from batch_projects import REPLAY, project_of_a_site
from report_maker import make_report

NAME = "nginx-directives-smoke"


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return project_of_a_site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def site(layout):
    return make_report(layout, "--all", "--hosts", str(REPLAY), "--jobs", "1")


def test_report_all_lists_every_study_with_duration_or_reason_of_failure(site):
    assert site.exit_code == 3
    printed = {line.split("\t")[0]: line.split("\t")[1] for line in site.output.splitlines() if "\t" in line}
    assert list(printed) == [NAME, "other-smoke", "torn-smoke"]
    assert printed[NAME].startswith("run ")
    assert printed["other-smoke"].startswith("not run: ")
    assert "torn.toml: " in printed["torn-smoke"]
    assert "more)" in printed["torn-smoke"]
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
    monkeypatch.setattr("loadbook.batch.site.run_study", lambda layout, request, **how: ran.append(request))
    monkeypatch.setattr("loadbook.batch.site.build_report", lambda *rest: pytest.fail("not asked for"))
    from loadbook.batch.site import run_smoke_studies

    def names(new=False):
        ran.clear()
        list(run_smoke_studies(layout, REPLAY, new, print, print))
        return [(request.study, request.new) for request in ran]

    assert names() == [("other-smoke", False)]
    assert names(new=True) == [(NAME, True), ("other-smoke", True)]
    file = layout.studies / "nginx-directives.toml"
    file.write_text(file.read_text().replace("margin = 0.02", "margin = 0.03"))
    assert names() == [(NAME, True), ("other-smoke", False)]
