"""Monitors of hosts over real SSH: a munin node and a node_exporter that answer, and ones that answer wrongly."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loadbook import host_metrics
from loadbook.core.errors import HostError
from loadbook.hosts.inventory import HostEntry
from loadbook.hosts.monitors import connect_monitor
from polled_monitors import poll

FIXTURES = Path("tests/fixtures/traces")
SCRAPE = (FIXTURES / "node-exporter-1.5.0--one-scrape.txt").read_bytes()
CPU = b"user.value %d\nnice.value 0\nsystem.value 10\nidle.value %d\niowait.value 0\n.\n"

Talk = Callable[[socketserver.StreamRequestHandler], None]


@contextmanager
def serving(talk: Talk) -> Iterator[int]:
    """Yield the port of a server on loopback whose connections `talk` answers."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            talk(self)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def node(answer: bytes = b"", requested: list[bytes] | None = None) -> Talk:
    """A munin node with the plugins cpu, load and if_err_eth0: its answers on cpu are `answer`, or grow with time."""

    def talk(handler: socketserver.StreamRequestHandler) -> None:
        handler.wfile.write(b"# munin node at a.b\n")
        for line in handler.rfile:
            if requested is not None:
                requested.append(line)
            if line == b"list\n":
                handler.wfile.write(b"cpu load if_err_eth0\n")
            elif answer:
                handler.wfile.write(answer)
                return
            else:
                ticks = int(time.monotonic() * 100)
                handler.wfile.write(CPU % (ticks, ticks))

    return talk


def exporter(status: bytes = b"200 OK") -> Talk:
    def talk(handler: socketserver.StreamRequestHandler) -> None:
        for line in handler.rfile:
            if line == b"\r\n":
                break
        handler.wfile.write(b"HTTP/1.0 " + status + b"\r\nContent-Type: text/plain\r\n\r\n" + SCRAPE)

    return talk


def test_munin_poller_asks_only_for_known_metrics(connect_lab):
    requested: list[bytes] = []
    with serving(node(requested=requested)) as port:
        data, problem = poll(connect_lab(), HostEntry(roles=["driver"], munin_port=port), "munin")
    assert not problem and set(requested) == {b"list\n", b"fetch cpu\n"}
    traces = host_metrics.read_traces(host_metrics.detect_format(data) or "", {"munin-driver": data})
    assert not traces.problems and len(traces.times) >= 3
    busy = [row["value"] for row in traces.rows if row["metric"] == "cpu_busy"]
    assert busy and all(value == pytest.approx(0.5, abs=0.2) for value in busy)


def test_node_exporter_is_scraped(connect_lab):
    with serving(exporter()) as port:
        data, problem = poll(connect_lab(), HostEntry(roles=["driver"], exporter_port=port), "node-exporter")
    assert not problem
    traces = host_metrics.read_traces(host_metrics.detect_format(data) or "", {"x": data})
    assert not traces.problems
    total = [row["value"] for row in traces.rows if row["metric"] == "memory_total"]
    assert len(total) == len(traces.times) >= 3 and set(total) == {25276510208.0}


@pytest.mark.parametrize(
    ("source", "talk", "printed"),
    [
        ("munin", lambda handler: None, "closed the connection"),
        ("munin", lambda handler: handler.wfile.write(b"220 smtp ready\n"), "no munin node"),
        ("munin", lambda handler: handler.wfile.write(b"# munin node at x\nload uptime\n"), "none of the plugins"),
        ("node-exporter", exporter(b"404 Not Found"), "answers 404"),
        ("node-exporter", lambda handler: handler.wfile.write(b"nonsense\r\n\r\n"), "no usable answer"),
    ],
)
def test_monitor_port_with_another_service_is_reported_with_remedy(source, talk, printed, connect_lab):
    with serving(talk) as port, pytest.raises(HostError, match=f"host driver: source {source} .*{printed}") as caught:
        connect_monitor(connect_lab(), HostEntry(roles=["driver"], munin_port=port, exporter_port=port), source)
    assert "apt-get install" in (caught.value.hint or "") and "hosts file" in (caught.value.hint or "")


def test_monitor_port_that_is_closed_or_disabled_is_reported(connect_lab):
    with serving(node()) as port:
        pass
    with pytest.raises(HostError, match="does not answer"):
        connect_monitor(connect_lab(), HostEntry(roles=["driver"], munin_port=port), "munin")
    assert connect_monitor(connect_lab(), HostEntry(roles=["driver"], munin_port=0), "munin") is None


def test_monitor_that_stops_answering_ends_only_its_own_polling(connect_lab):
    with serving(node(answer=b"user.value 1\n")) as port:  # half an answer, then it closes
        data, problem = poll(connect_lab(), HostEntry(roles=["driver"], munin_port=port), "munin")
    assert "closed the connection" in problem
    traces = host_metrics.read_traces("munin", {"x": data})
    assert not traces.rows and traces.problems
