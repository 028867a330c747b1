"""`make docs`: the site of the documentation is built without a warning (no link is broken) and has a search."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from chromium import Chrome
from loadbook.cli import studies
from loadbook.core.errors import UsageError
from waiting import wait_until

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(folder / "cache")]
    done = subprocess.run(
        [*sphinx, "-c", "docs", ".", str(folder / "html")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_site_has_every_page_in_its_contents(site: Path) -> None:
    contents = (site / "README.html").read_text()
    pages = {path.with_suffix("").name for path in (ROOT / "docs").glob("*.md")} - {"README"}
    assert pages - set(re.findall(r'href="docs/([\w-]+)\.html"', contents)) == set()
    assert "README.html" in (site / "index.html").read_text()


@pytest.mark.parametrize(("words", "page"), [("jump host", "hosts.html"), ("driver_cpu", "validity-rules.html")])
def test_search_of_the_site_finds_a_page_without_a_network(site: Path, tmp_path: Path, words: str, page: str) -> None:
    with Chrome(tmp_path / "profile") as chrome:
        chrome.open(site / "search.html", 1200, 800, f"?q={quote(words)}")
        links = "[...document.querySelectorAll('#search-results li a')].map(a => a.href).join()"
        wait_until(lambda: f"/docs/{page}" in chrome.value(links))


def test_docs_command_prints_the_address_of_the_built_site(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "shipped_project", lambda: site.parent)
    with pytest.raises(UsageError, match="is not built"):
        CliRunner().invoke(studies.docs, catch_exceptions=False)
    site.rename(site.parent / "docs")
    printed = CliRunner().invoke(studies.docs, catch_exceptions=False).stdout
    assert printed == f"{(site.parent / 'docs' / 'index.html').as_uri()}\n"
    (site.parent / "docs").rename(site)
