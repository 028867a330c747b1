"""nginx before others: balancing, kept connections, FastCGI, unix sockets, TLS, all with real processes."""

import threading
from collections.abc import Iterator
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingMixIn, UnixStreamServer
from typing import Any

import pytest

from loadbook.services import Instance, LaunchOptions
from local_host import LocalHost
from running_services import page, running


@pytest.fixture
def nodes(here: LocalHost, free_ports: list[int]) -> Iterator[list[Instance]]:
    wide: dict[str, Any] = {"page": "node", "counters": "on", "page_bytes": 100, "keepalive_requests": 1000}
    with (
        running(here, "nginx", free_ports[1], node="web1", **wide) as one,
        running(here, "nginx", free_ports[2], node="web2", **wide) as two,
    ):
        yield [one, two]


def test_nginx_upstream_balances_round_robin_with_equal_page_sizes(
    here: LocalHost, free_ports: list[int], nodes: list[Instance]
) -> None:
    with running(here, "nginx", free_ports[0], *nodes, upstream="http") as balancer:
        assert balancer.prove(here).live
        pages = [page(here, balancer) for _ in range(6)]
    assert [text.split(b"\n")[0] for text in pages].count(b"node web1") == 3
    assert {len(text) for text in pages} == {100}


@pytest.mark.parametrize("pool, opened", [("off", 40), (4, 2)])
def test_nginx_upstream_keepalive_reuses_connections(
    here: LocalHost, free_ports: list[int], nodes: list[Instance], pool: str | int, opened: int
) -> None:
    with running(
        here, "nginx", free_ports[0], *nodes, upstream="http", upstream_keepalive=pool, counters="on"
    ) as balancer:
        before = sum(node.counters(here)["connections"] for node in nodes)
        for _ in range(40):
            page(here, balancer)
        requested = len(nodes)
        assert sum(node.counters(here)["connections"] for node in nodes) - before - requested == opened
        assert balancer.counters(here)["requests"] >= 40


def test_nginx_tls_works_with_its_generated_certificate(here: LocalHost, free_ports: list[int]) -> None:
    with running(here, "nginx", free_ports[0], tls="on", counters="on") as web:
        assert web.rendered.scheme == "https"
        proof = web.prove(here)
        assert proof.live and proof.evidence.startswith("https://")
        assert page(here, web) == b"hello"
        assert web.counters(here)["connections"] >= 3
        made = Path(web.rendered.context.dir, "tls.pem").read_text()
    with running(here, "nginx", free_ports[0], tls="on") as web:
        assert Path(web.rendered.context.dir, "tls.pem").read_text() != made


class _Fcgi(StreamRequestHandler):
    """As much FastCGI as one request needs (FastCGI 1.0, sections 3 and 8): its parameters come back as the page."""

    def handle(self) -> None:
        printed = b""
        while head := self.rfile.read(8):
            kind, size, padding = head[1], int.from_bytes(head[4:6], "big"), head[6]
            data = self.rfile.read(size)
            self.rfile.read(padding)
            printed += data if kind == 4 else b""
            if kind == 5 and not size:
                break
        body = b"Content-Type: text/plain\r\n\r\n" + printed
        for kind, data in ((6, body), (6, b""), (3, bytes(8))):
            self.wfile.write(bytes([1, kind, 0, 1]) + len(data).to_bytes(2, "big") + bytes(2) + data)


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


def test_nginx_fastcgi_over_unix_socket_beside_a_static_page(
    here: LocalHost, free_ports: list[int], nodes: list[Instance]
) -> None:
    with _Server(f"{nodes[0].rendered.context.dir}/app.sock", _Fcgi) as app:
        threading.Thread(target=app.serve_forever, daemon=True).start()
        values: dict[str, Any] = {"upstream": "fastcgi", "upstream_socket": "on", "upstream_path": "/api"}
        with running(here, "nginx", free_ports[0], nodes[0], **values) as web:
            printed = page(here, web, "/api1?a=b")
            assert (
                b"REQUEST_METHODGET" in printed and b"REQUEST_URI/api1?a=b" in printed and b"QUERY_STRINGa=b" in printed
            )
            assert page(here, web) == b"hello"
        app.shutdown()


def test_nginx_processes_stay_on_their_cpus(here: LocalHost, free_ports: list[int]) -> None:
    with running(here, "nginx", free_ports[0], launch=LaunchOptions((0,), 200)) as web:
        for pid in web.pids():
            status, limits = (Path(f"/proc/{pid}/{name}").read_text() for name in ("status", "limits"))
            assert "Cpus_allowed_list:\t0\n" in status
            assert limits.split("Max open files")[1].split()[0] == "200"


OWN = b"""user root;
daemon off;
pid nginx.pid;
error_log stderr;
events {}
http {
access_log off;
client_body_temp_path temp-client;
proxy_temp_path temp-proxy;
fastcgi_temp_path temp-fastcgi;
uwsgi_temp_path temp-uwsgi;
scgi_temp_path temp-scgi;
server { listen {{ address }}:{{ port }}; root html; %s }
}
"""


def test_user_configuration_file_replaces_the_template(here: LocalHost, free_ports: list[int]) -> None:
    with running(here, "nginx", free_ports[0], main=OWN % b"", page_bytes=26) as web:
        proof = web.prove(here)
        assert proof.live is None and f"process {web.pids()[0]} was started with it" in proof.evidence
        assert page(here, web) == b"hello, world\n" * 2
        assert web.counters(here) == {}


def test_user_configuration_file_with_config_id_is_proven_to_be_loaded(here: LocalHost, free_ports: list[int]) -> None:
    answer = b'location = /.loadbook/config-id { return 200 "{{ config_id }}"; }'
    with running(here, "nginx", free_ports[0], main=OWN % answer) as web:
        assert web.prove(here).live
