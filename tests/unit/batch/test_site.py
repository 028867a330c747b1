"""`loadbook report --all`: every smoke study run (a recorded run played back), every report, what is lacking."""

from __future__ import annotations

import shutil

import pytest

from loadbook.core.errors import UsageError
from loadbook.store.paths import Layout
from recorded_run import FIXTURE, REPO, STUDIES
from report_maker import make_report

HOSTS = next(FIXTURE.iterdir()) / "hosts.toml"


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


@pytest.mark.parametrize("words", [["--all", "x"], ["--all", "--run", "r"], ["--jobs", "2"], ["--new", "x"]])
def test_report_all_refuses_contradictory_options(layout, words):
    with pytest.raises(UsageError, match="--all"):
        make_report(layout, *words)
