"""Every notebook in JupyterLab itself, run to its end by menu: no error, and the pictures are there."""

import shutil
import subprocess
import sys

import pytest

from chromium import BINARY, Chrome
from jupyterlab_session import served
from notebooks_in_jupyterlab import PICTURES, SHOWN, STUDIED, project_for_jupyterlab, run_to_its_end

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not BINARY, reason="Chromium is not there: apt-get install chromium"),
]
# the driver shares its CPU with a browser and with JupyterLab
BUSY = 'include = "{study}.toml"\nname = "{study}-busy"\n[gates]\ndriver_cpu = 1.0\n'


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


@pytest.mark.parametrize(("name", "pictures"), PICTURES.items())
def test_page_notebook_runs_to_its_end(lab, chrome, name, pictures):
    html = run_to_its_end(chrome, lab, name)
    assert html.count("data:image/svg+xml,") >= pictures
    assert chrome.value(SHOWN) >= min(1, pictures)


@pytest.mark.parametrize("name", STUDIED)
def test_page_notebook_of_a_fresh_run_runs_to_its_end(project, lab, chrome, name):
    study, needs, pictures = STUDIED[name]
    if lacking := [one for one in needs if not shutil.which(one)]:
        pytest.skip(f"not installed: {', '.join(lacking)}")
    (project.studies / f"{study}-busy.toml").write_text(BUSY.format(study=study))
    command = [sys.executable, "-c", "from loadbook.cli import main; main()", "run", f"{study}-busy-smoke"]
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    path = project.notebooks / f"{name}.ipynb"
    path.write_text(path.read_text().replace(f'study = \\"{study}\\"', f'study = \\"{study}-busy-smoke\\"'))
    html = run_to_its_end(chrome, lab, name)
    assert html.count("data:image/svg+xml,") >= pictures
    assert chrome.value(SHOWN) >= 1
