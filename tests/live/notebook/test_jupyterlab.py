"""Every notebook in JupyterLab itself, run to its end by menu: no error, and the pictures are there."""

import shutil

import pytest

from chromium import BINARY, Chrome
from jupyterlab_session import Notebook, html_of, served
from loadbook.hosts.lab import Lab
from mock_project import REPO, make_project
from waiting import wait_until

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not BINARY, reason="Chromium is not there: apt-get install chromium"),
]
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


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with our studies, the example, and two mock runs of one study."""
    root = tmp_path_factory.mktemp("lab") / "home"
    make_project(root, blocks=6, run=OLDER, dice=9)
    layout = make_project(root, blocks=6)
    shutil.copytree(REPO / "data" / "example", layout.root / "data" / "example")
    shutil.copytree(REPO / "studies", layout.studies, dirs_exist_ok=True)
    for path in layout.notebooks.glob("*.ipynb"):
        path.write_text(path.read_text().replace('study = \\"noise\\"', f'study = \\"{MOCK}\\"'))
    yield layout
    if layout.lab.is_dir():  # a run has brought it up
        Lab.load(layout.lab).down()


@pytest.fixture(scope="module")
def lab(project, tmp_path_factory):
    with served(project, tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture(scope="module")
def chrome(tmp_path_factory):
    with Chrome(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


def run_to_its_end(chrome, lab, name):
    book = Notebook(chrome, lab, name)
    html = html_of(book.run_all())
    book.to_the_top()
    book.keep(name)
    return html


def test_explore_notebook_runs_to_its_end(lab, chrome):
    html = run_to_its_end(chrome, lab, "explore")
    assert html.count("data:image/svg+xml;base64,") == 1
    wait_until(lambda: chrome.value(SHOWN) >= 1)
    assert chrome.value("getComputedStyle(document.querySelector('.lb.cell')).fontFamily").startswith("system-ui")


def test_every_notebook_is_run_in_jupyterlab():
    assert {"explore", *PICTURES, *STUDIED} >= {path.stem for path in (REPO / "notebooks").glob("*.ipynb")}
