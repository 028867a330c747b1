"""Every notebook in JupyterLab itself, run to its end by menu: no error, and the pictures are there."""

import shutil

import pytest

from chromium import BINARY, Chrome
from jupyterlab_session import Notebook, html_of, served
from loadbook.hosts.lab import Lab
from mock_project import REPO, make_project
from notebooks_in_jupyterlab import MOCK, OLDER, PICTURES, SHOWN, STUDIED
from waiting import wait_until

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not BINARY, reason="Chromium is not there: apt-get install chromium"),
]


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
