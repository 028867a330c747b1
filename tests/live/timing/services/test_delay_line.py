"""The delay line: every byte arrives, late one way, and what is proven is the line itself."""

import http.client
import resource
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadbook.services import ServiceError, load_service
from local_host import LocalHost
from ports import kept_port
from shared_builds import Running, backend, needs_go, placed, share_built
from waiting import wait_until

pytestmark = needs_go
DELAY_MS, DELAY_S = 30, 0.030


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 1024


@pytest.fixture
def echo() -> Iterator[int]:
    """Port of a server that sends back what it is sent, until it is told that nothing more comes."""
    with _Server(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize("delay_ms", [0, 5])
def test_delay_line_forwards_every_byte_and_the_end_of_stream(running: Running, echo: int, delay_ms: int) -> None:
    line = running("delay-line", {"backends": [backend(echo)]}, delay_ms=delay_ms)
    sent = b"".join(number.to_bytes(4, "big") for number in range(500_000))
    with socket.create_connection((line.address, line.port)) as client:
        threading.Thread(target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR)), daemon=True).start()
        with client.makefile("rb") as incoming:
            assert incoming.read() == sent


def test_delay_line_delays_connect_and_request_by_one_way_time(here: LocalHost, running: Running) -> None:
    app = running("go-app")
    line = running("delay-line", {"backends": [backend(app.port)]}, delay_ms=DELAY_MS)
    client, took = http.client.HTTPConnection(line.address, line.port), []
    for _ in range(3):
        begun = time.monotonic()
        client.request("GET", "/")
        assert client.getresponse().read() == b"hello"
        took.append(time.monotonic() - begun)
    client.close()
    assert took[0] >= 2 * DELAY_S and min(took[1:]) >= DELAY_S
    assert line.counters(here) == {"connections": 1.0, "upstream_connections": 1.0}


def test_delay_line_handles_many_connections_and_closes_them(here: LocalHost, running: Running, echo: int) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = min(300, soft // 4)
    line = running("delay-line", {"backends": [backend(echo)]}, delay_ms=5)
    files = Path(f"/proc/{line.pids()[0]}/fd")
    before = len(list(files.iterdir()))
    clients = [socket.create_connection((line.address, line.port)) for _ in range(many)]
    for number, client in enumerate(clients):
        client.sendall(b"%06d" % number)
    assert [client.recv(6) for client in clients] == [b"%06d" % number for number in range(many)]
    assert len(list(files.iterdir())) >= before + 2 * many
    for client in clients:
        client.close()
    wait_until(lambda: len(list(files.iterdir())) <= before + 2)
    assert line.counters(here)["connections"] == many


def test_delay_line_resets_client_when_the_target_is_closed(running: Running, here: LocalHost) -> None:
    line = running("delay-line", {"backends": [backend(kept_port())]}, delay_ms=5)
    with socket.create_connection((line.address, line.port)) as client, pytest.raises(ConnectionResetError):
        client.recv(1)
    assert b"connection refused" in line.log()


def test_delay_line_without_target_is_refused(here: LocalHost, built: Path) -> None:
    share_built(here, built)
    line = placed(here, load_service("delay-line"), {}, {})
    with pytest.raises(ServiceError, match="nothing behind it: the role needs backends"):
        line.check()
    line.stop()
