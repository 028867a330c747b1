"""`loadbook report --all`: every smoke study run (a recorded run played back), every report, what is lacking."""

from __future__ import annotations

import pytest

from batch_projects import project_of_a_site
from loadbook.core.errors import UsageError
from report_maker import make_report


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return project_of_a_site(tmp_path_factory.mktemp("site"))


@pytest.mark.parametrize("words", [["--all", "x"], ["--all", "--run", "r"], ["--jobs", "2"], ["--new", "x"]])
def test_report_all_refuses_contradictory_options(layout, words):
    with pytest.raises(UsageError, match="--all"):
        make_report(layout, *words)
