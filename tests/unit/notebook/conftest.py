"""A project with the recorded run of the fixtures, ingested once; it is the current folder, as a notebook's is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from recorded_run import STUDY, ingested_run

if TYPE_CHECKING:
    from loadbook.notebook.run import Run


@pytest.fixture(scope="session")
def home(tmp_path_factory: Any) -> Any:
    """The project's layout."""
    return ingested_run(tmp_path_factory.mktemp("explore"))


@pytest.fixture
def run(home: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The recorded run as `lb.load` gives it."""
    import loadbook as lb

    monkeypatch.chdir(home.root / "notebooks")
    return lb.load(STUDY)
