"""JupyterLab in a project, started as by `make lab`, and one of its notebooks in headless Chromium."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chromium import Chrome
from loadbook.store.paths import Layout
from recorded_run import REPO

WAIT_S = 420
STATE = """(() => {
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


def options() -> list[str]:
    """Return the options with which `make lab` starts JupyterLab."""
    (line,) = re.findall(r"-m jupyterlab (.*)", (REPO / "Makefile").read_text())
    given = line.replace("$(AS_ROOT)", "--allow-root" if os.geteuid() == 0 else "").replace("$(JUPYTER_ARGS)", "")
    return [*shlex.split(given), "--no-browser", "--LabApp.expose_app_in_browser=True"]


@contextmanager
def served(layout: Layout, own: Path) -> Iterator[dict[str, Any]]:
    """Yield address and token of a JupyterLab server with separate settings, which is stopped afterwards."""
    folders = {f"JUPYTER_{kind}_DIR": str(own / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    folders |= {f"JUPYTERLAB_{kind}_DIR": str(own / kind) for kind in ("SETTINGS", "WORKSPACES")}
    environment = os.environ | folders | {"IPYTHONDIR": str(own / "ipython"), "JUPYTER_PREFER_ENV_PATH": "1"}
    environment.pop("LOADBOOK_HOME", None)
    with (own / "log").open("wb") as log:
        command = [sys.executable, "-m", "jupyterlab", *options()]
        server = subprocess.Popen(command, cwd=layout.root, env=environment, stdout=log, stderr=log)
    try:
        yield _address(own / "RUNTIME", server)
    finally:
        server.terminate()
        server.wait(30)


def _address(folder: Path, server: subprocess.Popen[bytes]) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        for path in folder.glob("jpserver-*.json"):
            if text := path.read_text():
                return dict(json.loads(text))
        time.sleep(0.1)
    raise TimeoutError("JupyterLab did not start")


class Notebook:
    """A notebook opened in JupyterLab, with JupyterLab's default settings."""

    def __init__(self, chrome: Chrome, lab: dict[str, Any], name: str, width: int = 1400, height: int = 9000) -> None:
        self.chrome = chrome
        chrome.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        chrome.call("Page.navigate", url=f"{lab['url']}lab/tree/notebooks/{name}.ipynb?token={lab['token']}&reset")
        self.until(lambda found: found["ready"])

    def until(self, holds: Callable[[dict[str, Any]], bool], wait_s: float = WAIT_S) -> dict[str, Any]:
        """Wait until `holds` is true of the notebook's state, and return this state."""
        deadline = time.monotonic() + wait_s
        found: dict[str, Any] = {}
        while time.monotonic() < deadline:
            found = json.loads(self.chrome.value(STATE) or "{}")
            if found and holds(found):
                return found
            time.sleep(0.5)
        raise AssertionError(f"after {wait_s} s: {json.dumps(found)[:2000]}")

    def reported(self, what: str) -> None:
        """Execute JavaScript of the notebook panel, such as `context.save()`."""
        page = "[...window.jupyterapp.shell.widgets('main')].find(one => one.context && one.content.widgets)"
        self.chrome.value(f"void {page}.{what}")

    def command(self, name: str) -> None:
        """Execute a command of JupyterLab's menus."""
        self.chrome.value(f"void window.jupyterapp.commands.execute('{name}')")

    def run_all(self) -> list[list[dict[str, Any]]]:
        """Run all cells by the menu Run, and return the outputs of each cell."""
        self.until(lambda found: found["idle"])
        self.command("notebook:run-all-cells")
        return self.until(lambda found: found["done"] and found["idle"])["outputs"]

    def to_the_top(self) -> None:
        """Scroll to the top, since JupyterLab renders only cells that are visible."""
        self.chrome.value("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
        time.sleep(3)

    def keep(self, name: str) -> None:
        """Store a picture in the folder that the environment variable LOADBOOK_PICTURES names, if it is set."""
        if folder := os.environ.get("LOADBOOK_PICTURES"):
            self.chrome.picture(Path(folder) / f"{name}.png")


def html_of(outputs: list[list[dict[str, Any]]]) -> str:
    """Assert that no cell raised an error or wrote to stderr, and return the HTML of all cells."""
    flat = [output for cell in outputs for output in cell]
    assert not [o for o in flat if o["output_type"] == "error"], flat
    assert not [o for o in flat if o["output_type"] == "stream" and o["name"] == "stderr"], flat
    return "".join("".join(o.get("data", {}).get("text/html", "")) for o in flat)
