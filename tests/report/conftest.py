"""One synthetic project and its report for all tests of this folder: notebooks are executed once."""

from pathlib import Path
from typing import Any

import pytest

from mock_project import make_project
from report_maker import Made, make_report


@pytest.fixture(scope="session")
def made(tmp_path_factory: Any) -> Made:
    """The usual mock study: one treatment of every verdict, both checks, one doubt."""
    layout = make_project(Path(tmp_path_factory.mktemp("project")))
    return make_report(layout)
