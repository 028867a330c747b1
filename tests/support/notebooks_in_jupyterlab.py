"""Notebooks of a project that a real JupyterLab opens."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chromium import Chrome
from jupyterlab_session import Notebook, html_of
from loadbook.hosts.lab import Lab
from loadbook.store.paths import EXAMPLES, Layout
from mock_project import REPO, make_project

SHOWN = "[...document.querySelectorAll('.jp-Notebook img')].filter(i => i.complete && i.naturalWidth > 0).length"
MOCK = "nginx-directives"
OLDER = "20261101T101500"
PICTURES = {
    "config_effects": 2, "run_quality": 1, "resource_traces": 1, "noise": 1, "run_study": 0,
    "compare_runs": 1, "history": 1,
}  # fmt: skip
# notebook -> the study whose smoke variant is run for it, what it starts on the hosts, and how many pictures there are
STUDIED = {
    "backend_modes": ("backend-modes", ("nginx", "wrk", "node", "go"), 2),
    "capacity": ("capacity", ("nginx", "vegeta"), 2),
    "certified_rates": ("certified-capacity", ("nginx", "vegeta"), 2),
    "factorial": ("nginx-screening", ("nginx", "wrk"), 1),
    "lb_vs_single": ("lb-vs-single", ("nginx", "wrk", "haproxy"), 2),
    "page_size_tps": ("page-size-tps", ("haproxy", "apache2", "wrk"), 2),
}


@contextlib.contextmanager
def project_for_jupyterlab(root: Path) -> Iterator[Layout]:
    """Yield a project with our studies, the example, and two mock runs of one study; end its lab."""
    make_project(root, blocks=6, run=OLDER, dice=9)
    layout = make_project(root, blocks=6)
    for name in EXAMPLES:
        shutil.copytree(REPO / "data" / name, layout.root / "data" / name)
    shutil.copytree(REPO / "studies", layout.studies, dirs_exist_ok=True)
    for path in layout.notebooks.glob("*.ipynb"):
        path.write_text(path.read_text().replace('study = \\"noise\\"', f'study = \\"{MOCK}\\"'))
    try:
        yield layout
    finally:
        if layout.lab.is_dir():  # a run has brought it up
            Lab.load(layout.lab).down()


def run_to_its_end(chrome: Chrome, lab: dict[str, Any], name: str) -> str:
    """Run all cells of a notebook without an error, and return their HTML."""
    book = Notebook(chrome, lab, name)
    html = html_of(book.run_all())
    book.to_the_top()
    book.keep(name)
    return html
