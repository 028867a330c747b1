"""Pages of simulated runs, and their text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup

from loadbook.analyses.effects.page import EffectsPage
from loadbook.store.tables import load_run
from mock_project import Arm, make_project


def page_of(tmp_path: Path, arms: dict[str, Arm] | None = None, kind: type = EffectsPage, **more: Any) -> Any:
    """Return the page of a simulated run with these treatments."""
    name = more.pop("name", "mock")
    layout = make_project(tmp_path, arms, name=name, **more)
    return kind(load_run(layout, name))


def text_of(page: str) -> str:
    """Return the text of a page in HTML."""
    return BeautifulSoup(page, "html.parser").get_text(" ", strip=True)
