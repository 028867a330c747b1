"""Every notebook in JupyterLab itself, run to its end by menu: no error, and the pictures are there."""

import pytest

from chromium import BINARY, Chrome
from jupyterlab_session import served
from mock_project import REPO
from notebooks_in_jupyterlab import PICTURES, SHOWN, STUDIED, project_for_jupyterlab, run_to_its_end
from waiting import wait_until

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not BINARY, reason="Chromium is not there: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    with project_for_jupyterlab(tmp_path_factory.mktemp("lab") / "home") as layout:
        yield layout


@pytest.fixture(scope="module")
def lab(project, tmp_path_factory):
    with served(project, tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture(scope="module")
def chrome(tmp_path_factory):
    with Chrome(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


def test_explore_notebook_runs_to_its_end(lab, chrome):
    html = run_to_its_end(chrome, lab, "explore")
    assert html.count("data:image/svg+xml,") == 1
    wait_until(lambda: chrome.value(SHOWN) >= 1)
    assert chrome.value("getComputedStyle(document.querySelector('.lb.cell')).fontFamily").startswith("system-ui")


def test_every_notebook_is_run_in_jupyterlab():
    assert {"explore", *PICTURES, *STUDIED} >= {path.stem for path in (REPO / "notebooks").glob("*.ipynb")}
