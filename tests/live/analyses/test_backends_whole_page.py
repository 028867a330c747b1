"""The page of the ways to an application: conditions judged apart, connections per request, the article's claims."""

from __future__ import annotations

import re

import nbformat
import pytest

from backends_runs import STUDIES, project
from loadbook.analyses.balancers.page import BackendsPage
from loadbook.report.html import forbidden_content

NOTEBOOK = STUDIES.parent / "notebooks" / "backend_modes.ipynb"
FORBIDDEN = re.compile(r"significant|proves?\b|no effect|\bnan\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> BackendsPage:
    return project(tmp_path_factory.mktemp("backends"))


def test_backends_page_sections_are_well_formed(page: BackendsPage) -> None:
    cells = [c.source for c in nbformat.read(NOTEBOOK, as_version=4).cells if c.cell_type == "code"]
    called = [name for source in cells for name in re.findall(r"page\.(\w+)\(\)", source)]
    assert called[:5] == ["scope", "answer", "trust", "effects", "connections"]
    assert called[-2:] == ["provenance", "data"]
    for name in called[:-1]:  # the last one is a frame
        block = getattr(page, name)()
        assert not forbidden_content(f"<!DOCTYPE html><html><body>{block.html}</body></html>"), name
        assert not FORBIDDEN.search(block.text), (name, FORBIDDEN.search(block.text))
