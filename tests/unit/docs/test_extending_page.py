"""docs/extending.md: the example of a page makes a page."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from loadbook.report.page import Page
from recorded_run import STUDY, ingested_run

TEXT = (Path(__file__).parents[3] / "docs" / "extending.md").read_text()


def test_extending_page_example_page_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = ingested_run(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(home.root))
    (example,) = (code for code in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "class SizesPage" in code)
    names: dict[str, Any] = {}
    exec(textwrap.dedent("   " + example.lstrip()), names)
    page = names["sizes_page"](STUDY)
    assert issubclass(type(page), Page)
    assert re.fullmatch(r"Responses have \d+ to \d+ bytes\.\s*", page.answer().text)
    assert page.scope().text and page.doubts().text


def test_extending_page_names_sections_of_every_page() -> None:
    listed = TEXT.split("sections that all pages share:")[1].split(".\n")[0]
    assert all(callable(getattr(Page, name)) for name in re.findall(r"`(\w+)`", listed))
