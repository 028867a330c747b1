"""A server that answers with hostile headers, bodies and status lines, measured for real; its report in a browser."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chromium import BINARY, Chrome
from hostile_texts import CANARY, HTML, SHEETS, TEMPLATES, TERMINAL, no_canary, silent
from loadbook.execution.progress import Progress
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.ingestion.ingest import ingest
from loadbook.store.ledger import read_ledger
from loadbook.store.trial_record import read_json
from recorded_run import with_studies
from report_maker import make_report

pytestmark = [
   pytest.mark.fault(44, 55), pytest.mark.timeout(1200),
    pytest.mark.skipif(not BINARY, reason="Chromium is not there: apt-get install chromium"),
]  # fmt: skip
TEXTS = [t.replace("\ud800", "?") for t in (*HTML, *TERMINAL, *TEMPLATES, *SHEETS, "[sudo] password: ")]
BODY = "\n".join(TEXTS).encode()
HEADER = " ".join(TEXTS).replace("\n", " ").replace("\r", " ").replace("\0", " ").encode()
STUDY = """
schema = 1
name = "hostile-server"
question = "What does a server do that answers with code?"
baseline = "fine"
blocks = 2

[roles.driver]
[roles.web]
external = "127.0.0.1:{port}"

[workload]
tool = "wrk"
connections = 2
duration_s = 1
warmup_s = 0
timeout_s = 1
path = "/fine"

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0

[treatments.fine]
label = "{label}"
[treatments.again]
check = "aa"
same_as = "fine"
[treatments.error]
workload = {{ path = "/error" }}
[treatments.cut]
workload = {{ path = "/cut" }}
[treatments.none]
workload = {{ path = "/none" }}
"""


def _answer(path: bytes) -> bytes:
    head = b"\r\nServer: " + HEADER + b"\r\nX-Powered-By: " + HEADER + b"\r\nSet-Cookie: " + HEADER
    whole = head + b"\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
    if path == b"/error":
        return b"HTTP/1.1 500 " + HEADER + whole
    if path == b"/cut":
        return (b"HTTP/1.1 200 " + HEADER + whole)[:-50]
    if path == b"/none":
        return HEADER
    return b"HTTP/1.1 200 " + HEADER + whole


def _serve(client: socket.socket) -> None:
    with client, suppress(OSError):
        client.settimeout(5)
        kept = b""
        while data := client.recv(65536):
            kept += data
            while b"\r\n\r\n" in kept:
                requested, _, kept = kept.partition(b"\r\n\r\n")
                path = requested.split(b" ")[1]
                client.sendall(_answer(path))
                if path in (b"/cut", b"/none"):
                    return


@pytest.fixture
def port() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=_serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


def test_report_of_a_run_against_a_hostile_server_has_no_active_content(
    lab: Lab, port: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    layout = with_studies(tmp_path / "home")
    label = HTML[0].replace('"', "'")
    (layout.studies / "hostile-server.toml").write_text(STUDY.format(port=port, label=label))
    lines: list[str] = []

    def hear(event: Progress) -> None:
        lines.append(event.line())

    run = run_study(layout, RunRequest("hostile-server", lab.hosts_file), on_event=hear)
    assert all(silent(line) and "\n" not in line for line in lines)
    paths = layout.run("hostile-server", run)
    plan = read_json(paths.plan_json)
    treatments = {trial["trial"]: trial["treatment"] for trial in plan["trials"]}
    ended = {e["trial"]: e["status"] for e in read_ledger(paths.ledger) if e["event"] == "ended" and e["final"]}
    assert set(ended) == set(treatments)
    states = {name: {ended[t] for t, n in treatments.items() if n == name} for name in set(treatments.values())}
    assert states["fine"] == states["again"] == {"ok"}, states
    assert "ok" not in states["error"] | states["cut"] | states["none"], states
    ingest(paths)
    made = make_report(layout, "hostile-server")
    assert silent(made.output)
    pages = sorted(layout.reports.glob("*.html"))
    assert len(pages) >= 2, made.output
    with Chrome(tmp_path / "chromium") as chrome:
        chrome.call(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
        )
        for page in pages:
            assert silent(page.read_text())
            chrome.open(page, 1280, 720)
            time.sleep(0.3)
            assert chrome.complaints() == [] and chrome.requests() == [page.as_uri()]
            assert chrome.value("document.title") != CANARY and chrome.value("document.scripts.length") == 0
            assert chrome.value("location.href") == page.as_uri()
    assert no_canary(tmp_path, lab.folder)
    kept = b"".join(p.read_bytes() for p in paths.raw.rglob("answers-*"))
    assert b"PWN" in kept  # what it said is kept as it was said
    reported = ", ".join(f"{name}: {'/'.join(sorted(states[name]))}" for name in sorted(states))
    record_property("seen", f"{reported}; {len(pages)} pages inert")
