"""Sphinx configuration: `make docs` builds README.md and docs/ as a searchable site, and fails on a broken link.

The table of contents is that of docs/README.md: each heading is a group, each link of its table a page.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

CLONE = Path(__file__).parent.parent
INDEX = "README"

project = "loadbook"
html_title = "loadbook"
extensions = ["myst_parser"]
root_doc = INDEX
include_patterns = [
    *("README.md", "SECURITY.md", "CONTRIBUTING.md"),
    *("docs/*.md", "docs/reference/*.md", "lib/loadbook/services/*/README.md"),
]
exclude_patterns = [".*", "benchmarks", "build", "data", "notebooks", "reports", "scripts", "studies", "tests"]
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # Pygments knows neither haproxy nor templates of nginx.conf
nitpicky = True

REDIRECT = f'<!doctype html><meta http-equiv="refresh" content="0; url={INDEX}.html"><a href="{INDEX}.html">loadbook</a>\n'


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Add a table of contents per group of docs/README.md to the first page; readers of Markdown need none."""
    if page != INDEX:
        return
    index = (CLONE / "docs" / "README.md").read_text(encoding="utf-8")
    for heading, group in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", index, re.MULTILINE | re.DOTALL):
        pages = dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md\)", group))
        lines = "\n".join(f"docs/{name}" for name in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{lines}\n```\n"
    source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\ndocs/README\nSECURITY\nCONTRIBUTING\nlib/loadbook/services/*/README\n```\n"


def write_redirect(app: Sphinx, error: Exception | None) -> None:
    """Write index.html, the page that a browser opens in a folder."""
    if error is None:
        (Path(app.outdir) / "index.html").write_text(REDIRECT, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect both functions."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", write_redirect)
