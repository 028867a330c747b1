"""JupyterLab itself, started as `make lab` starts it and opened in headless Chromium: every notebook to its end."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "report"))
from chrome import BINARY, Chrome
from mockproject import REPO, make_project

import recorded

pytestmark = [
    pytest.mark.browser,
    pytest.mark.alone,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not BINARY, reason="Chromium is not installed"),
]
WAIT_S = 420
CELLS = """(() => {
    const shown = window.jupyterapp ? [...window.jupyterapp.shell.widgets('main')] : [];
    const page = shown.find(one => one.context && one.content && one.content.widgets);
    if (!page) return null;
    const kernel = page.sessionContext.session && page.sessionContext.session.kernel;
    const code = page.content.widgets.filter(cell => cell.model.type === 'code');
    return JSON.stringify({
        ready: page.context.isReady && !!kernel && page.content.widgets.length > 0,
        idle: !!kernel && kernel.status === 'idle',
        done: code.length > 0 && code.every(cell => cell.model.executionCount !== null),
        outputs: code.map(cell => cell.model.outputs.toJSON()),
    });
})()"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a mock run of nginx-directives and the example."""
    layout = make_project(tmp_path_factory.mktemp("lab") / "home", blocks=6)
    shutil.copytree(REPO / "data" / "example", layout.root / "data" / "example")
    for path in layout.notebooks.glob("*.ipynb"):
        text = path.read_text()
        path.write_text(text.replace('study = \\"noise\\"', 'study = \\"nginx-directives\\"'))
    return layout


@pytest.fixture(scope="module")
def lab(project, tmp_path_factory):
    """Address and token of a server of its own; ended after the tests."""
    own = tmp_path_factory.mktemp("jupyter")
    folders = {f"JUPYTER_{kind}_DIR": str(own / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    folders |= {f"JUPYTERLAB_{kind}_DIR": str(own / kind) for kind in ("SETTINGS", "WORKSPACES")}
    environment = os.environ | folders | {"IPYTHONDIR": str(own / "ipython"), "JUPYTER_PREFER_ENV_PATH": "1"}
    environment.pop("LOADBOOK_HOME", None)
    asked = ["--ServerApp.ip=127.0.0.1", "--LabApp.news_url=", "--no-browser", "--LabApp.expose_app_in_browser=True"]
    asked += ["--allow-root"] if os.geteuid() == 0 else []
    with (own / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *asked], cwd=project.notebooks, env=environment, stdout=log, stderr=log
        )
    try:
        yield _address(own / "RUNTIME", server)
    finally:
        server.terminate()
        server.wait(30)


def _address(folder, server):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        for path in folder.glob("jpserver-*.json"):
            if text := path.read_text():
                return json.loads(text)
        time.sleep(0.1)
    raise TimeoutError("JupyterLab did not start")


@pytest.fixture(scope="module")
def chrome(tmp_path_factory):
    with Chrome(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


def until(chrome, holds):
    """Wait until the notebook in JupyterLab is as asked, and return what is known of it."""
    deadline = time.monotonic() + WAIT_S
    found = {}
    while time.monotonic() < deadline:
        found = json.loads(chrome.value(CELLS) or "{}")
        if found and holds(found):
            return found
        time.sleep(0.5)
    raise AssertionError(f"after {WAIT_S} s: {json.dumps(found)[:2000]}")


def run_all(chrome, lab, name, width=1400, height=9000):
    """Open a notebook, run all of its cells by the command of the menu Run, and return their outputs."""
    chrome.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    chrome.call("Page.navigate", url=f"{lab['url']}lab/tree/{name}.ipynb?token={lab['token']}&reset")
    until(chrome, lambda found: found["ready"] and found["idle"])
    chrome.value("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    return until(chrome, lambda found: found["done"] and found["idle"])["outputs"]


def check(outputs):
    """Assert that no cell failed and that pictures are there; return all HTML."""
    flat = [output for cell in outputs for output in cell]
    assert not [o for o in flat if o["output_type"] == "error"], flat
    assert not [o for o in flat if o["output_type"] == "stream" and o["name"] == "stderr"], flat
    return "".join("".join(o.get("data", {}).get("text/html", "")) for o in flat)


def to_the_top(chrome):
    """Scroll up: only what is in the window is in the page."""
    chrome.value("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
    time.sleep(3)


def keep(chrome, name):
    """Keep a picture where whoever asks for it looks (LOADBOOK_PICTURES)."""
    if folder := os.environ.get("LOADBOOK_PICTURES"):
        chrome.picture(Path(folder) / f"{name}.png")


def test_explore_runs_to_its_end(lab, chrome):
    html = check(run_all(chrome, lab, "explore"))
    to_the_top(chrome)
    keep(chrome, "explore")
    assert html.count("data:image/svg+xml;base64,") >= 4
    shown = "[...document.querySelectorAll('.jp-Notebook img')].filter(i => i.complete && i.naturalWidth > 0).length"
    assert chrome.value(shown) >= 2
    assert chrome.value("getComputedStyle(document.querySelector('.lb.cell')).fontFamily").startswith("system-ui")


@pytest.mark.long
@pytest.mark.parametrize("name", ["config_effects", "run_quality", "resource_traces", "noise", "run_study"])
def test_a_page_runs_to_its_end(lab, chrome, name):
    html = check(run_all(chrome, lab, name))
    to_the_top(chrome)
    keep(chrome, name)
    assert name == "run_study" or "data:image/svg+xml;base64," in html or name == "noise"


def test_the_example_is_there():
    assert (recorded.REPO / "data" / "example").is_dir()
