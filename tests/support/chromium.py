"""Headless Chromium, controlled over its DevTools socket: open a page, evaluate JavaScript, take pictures, print.

Pages of loadbook forbid scripts by their Content-Security-Policy; JavaScript sent over the socket is not affected.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import websocket

from waiting import PATIENCE_S

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--force-device-scale-factor=1", "--remote-debugging-port=0",
]  # fmt: skip
BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WAIT_S = 60


class Chrome:
    """One browser with one tab; use it as a context manager."""

    def __init__(self, profile: Path) -> None:
        assert BINARY, "Chromium is not installed"
        self.profile = profile
        self.process = subprocess.Popen(
            [BINARY, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.number = 0
        self.events: list[dict[str, Any]] = []
        self.socket = websocket.create_connection(self._address(), timeout=WAIT_S, suppress_origin=True)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chrome:
        return self

    def __exit__(self, *problem: object) -> None:
        self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def _address(self) -> str:
        port_file, end = self.profile / "DevToolsActivePort", time.monotonic() + WAIT_S
        while time.monotonic() < end:
            if port_file.is_file() and port_file.read_text().strip():
                port = int(port_file.read_text().split()[0])
                with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=WAIT_S) as answer:
                    pages = [t for t in json.load(answer) if t["type"] == "page"]
                if pages:
                    return str(pages[0]["webSocketDebuggerUrl"])
            time.sleep(0.05)
        raise TimeoutError("Chromium did not open its DevTools port")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its result; events that arrive meanwhile are stored."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.number:
                assert "error" not in message, message["error"]
                return dict(message["result"])
            self.events.append(message)

    def open(self, file: Path, width: int, height: int, query: str = "") -> None:
        """Show a local file in a window of this size (CSS pixels) and wait until it is loaded."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=file.resolve().as_uri() + query)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(json.loads(self.socket.recv()))

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def complaints(self) -> list[str]:
        """Return the errors in the console, the log and the network since the page was opened."""
        self.value("1")
        printed = []
        for event in self.events:
            if event.get("method") in ("Runtime.exceptionThrown", "Network.loadingFailed"):
                printed.append(json.dumps(event["params"])[:300])
            if event.get("method") == "Log.entryAdded":
                printed.append(event["params"]["entry"]["text"])
        return printed

    def requests(self) -> list[str]:
        """Return every URL that the page requested, without data URIs."""
        sent = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith("data:")]

    def picture(self, path: Path, full: bool = False) -> None:
        """Write a PNG of the window, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path: Path) -> None:
        """Print the page to a PDF file on A4 paper."""
        printed = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=False)
        path.write_bytes(base64.b64decode(printed["data"]))
