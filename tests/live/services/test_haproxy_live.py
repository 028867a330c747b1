"""HAProxy before two nodes: connections and requests, TLS, checks, what it counts; real processes."""

import http.client
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadbook.services import Instance, ServiceError
from local_host import LocalHost
from running_services import page, running
from waiting import PATIENCE_S


@pytest.fixture
def nodes(here: LocalHost, free_ports: list[int]) -> Iterator[list[Instance]]:
    with (
        running(here, "nginx", free_ports[1], node="web1", page="node", page_bytes=64) as one,
        running(here, "nginx", free_ports[2], node="web2", page="node", page_bytes=64) as two,
    ):
        yield [one, two]


def on_one_connection(one: Instance, requests: int) -> list[bytes]:
    """Return the pages that one client gets that would keep its connection."""
    client = http.client.HTTPConnection(one.address, one.port, timeout=PATIENCE_S)
    bodies = []
    for _ in range(requests):
        client.request("GET", "/index.html")
        bodies.append(client.getresponse().read())
    client.close()
    return bodies


@pytest.mark.parametrize("mode, seen", [("http", {b"node web1", b"node web2"}), ("tcp", {b"node web1"})])
def test_haproxy_balances_requests_or_connections(
    here: LocalHost, free_ports: list[int], nodes: list[Instance], mode: str, seen: set[bytes]
) -> None:
    with running(here, "haproxy", free_ports[0], *nodes, mode=mode) as balancer:
        proof = balancer.prove(here)
        assert proof.live, proof.evidence
        assert {body.split(b"\n")[0] for body in on_one_connection(balancer, 4)} == seen
        counted = balancer.counters(here)
        assert counted["connections"] == 1 and counted.get("requests") == (4 if mode == "http" else None)


@pytest.mark.parametrize("settings", [{}, {"nbthread": 3}], ids=["one-per-cpu", "three"])
def test_haproxy_workers_are_its_threads(
    here: LocalHost, free_ports: list[int], nodes: list[Instance], settings: dict[str, Any]
) -> None:
    with running(here, "haproxy", free_ports[0], nodes[0], **settings) as balancer:
        assert balancer.prove(here).workers == settings.get("nbthread", len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    "connections, clients, upstream", [("http-keep-alive", 1, 1), ("http-server-close", 1, 6), ("httpclose", 6, 6)]
)
def test_haproxy_reuses_connections_as_configured(
    here: LocalHost, free_ports: list[int], nodes: list[Instance], connections: str, clients: int, upstream: int
) -> None:
    with running(here, "haproxy", free_ports[0], nodes[0], connections=connections) as balancer:
        on_one_connection(balancer, 6)
        counted = balancer.counters(here)
        assert counted == {"connections": clients, "requests": 6, "upstream_connections": upstream}


@pytest.mark.parametrize("mode", ["http", "tcp"])
def test_haproxy_terminates_tls(here: LocalHost, free_ports: list[int], nodes: list[Instance], mode: str) -> None:
    with running(here, "haproxy", free_ports[0], *nodes, mode=mode, tls="on") as balancer:
        assert balancer.rendered.scheme == "https" and balancer.prove(here).live
        assert page(here, balancer).startswith(b"node web")


def test_haproxy_uses_an_existing_certificate(
    here: LocalHost, free_ports: list[int], nodes: list[Instance], tmp_path: Path
) -> None:
    with running(here, "haproxy", free_ports[0], *nodes, tls="on") as balancer:
        (tmp_path / "own.pem").write_bytes(Path(balancer.rendered.context.dir, "tls.pem").read_bytes())
    with running(here, "haproxy", free_ports[0], *nodes, tls="on", certificate=str(tmp_path / "own.pem")) as balancer:
        assert not Path(balancer.rendered.context.dir, "tls.pem").exists()
        assert page(here, balancer)


def test_haproxy_health_check_removes_a_failing_backend(
    here: LocalHost, free_ports: list[int], nodes: list[Instance]
) -> None:
    with running(here, "haproxy", free_ports[0], *nodes, check="ping", check_path="/none", check_ms=100) as balancer:
        answer = here.http_get(balancer.address, balancer.port, "/index.html", timeout_s=PATIENCE_S)
        for _ in range(50):
            if answer.status == 503:
                break
            answer = here.http_get(balancer.address, balancer.port, "/index.html", timeout_s=PATIENCE_S)
            time.sleep(0.1)
        assert answer.status == 503


def test_haproxy_refuses_a_port_in_use(here: LocalHost, free_ports: list[int], nodes: list[Instance]) -> None:
    with running(here, "haproxy", free_ports[0], *nodes) as old:
        values: dict[str, Any] = {"nbthread": 1}
        with running(here, "haproxy", free_ports[0], *nodes, **values) as new:
            assert new.prove(here).live is False
        assert old.prove(here).live


def test_haproxy_maxconn_above_the_open_file_limit_is_refused(
    here: LocalHost, free_ports: list[int], nodes: list[Instance]
) -> None:
    with (
        pytest.raises(ServiceError, match="Cannot raise FD limit"),
        running(here, "haproxy", free_ports[0], *nodes, maxconn=1_000_000),
    ):
        pass
