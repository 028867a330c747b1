"""Services at an IPv6 address: nginx behind haproxy and nginx, httpd, redis and our own servers; real processes."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from loadbook.services import Instance, ServiceError
from local_host import LocalHost
from running_services import page, running

OWN_NGINX = b"""user root; daemon off; pid nginx.pid; error_log stderr;
events {}
http {
    access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
    scgi_temp_path t5;
    server { listen %s; root html; location = /.loadbook/config-id { return 200 "{{ config_id }}"; } }
}
"""


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no ::1")


@pytest.fixture
def there(here: LocalHost) -> LocalHost:
    """Return this machine with an address that only an IPv6 socket has."""
    here.address = "::1"
    return here


def listens(one: Instance) -> bool:
    with socket.create_connection((one.address, one.port), timeout=5):
        return one.address == "::1"


@pytest.mark.parametrize("service", ["nginx", "httpd"])
def test_web_server_answers_at_its_ipv6_address_and_proves_its_configuration(
    there: LocalHost, free_ports: list[int], service: str
) -> None:
    with running(there, service, free_ports[0], page_bytes=64) as one:
        assert one.prove(there).live and len(page(there, one)) == 64 and listens(one)


@pytest.mark.parametrize(("front", "settings"), [("haproxy", {}), ("nginx", {"upstream": "http", "counters": "on"})])
def test_balancer_reaches_backends_at_ipv6_addresses(
    there: LocalHost, free_ports: list[int], front: str, settings: dict[str, Any]
) -> None:
    with (
        running(there, "nginx", free_ports[1], node="web1", page="node", page_bytes=64) as one,
        running(there, "nginx", free_ports[2], node="web2", page="node", page_bytes=64) as two,
        running(there, front, free_ports[0], one, two, **settings) as balancer,
    ):
        assert balancer.prove(there).live and balancer.counters(there)
        pages = {page(there, balancer).split(b"\n")[0] for _ in range(6)}
        assert pages == {b"node web1", b"node web2"}


def test_redis_listens_at_its_ipv6_address(there: LocalHost, free_ports: list[int]) -> None:
    with running(there, "redis", free_ports[0]) as store:
        assert store.prove(there).live and listens(store)


@pytest.mark.parametrize("endpoint", [b"{{ endpoint }}", b"[{{ address }}]:{{ port }}"])
def test_own_file_has_its_ipv6_address_in_brackets(there: LocalHost, free_ports: list[int], endpoint: bytes) -> None:
    with running(there, "nginx", free_ports[0], main=OWN_NGINX % endpoint) as one:
        assert one.prove(there).live and page(there, one)


def test_own_file_without_brackets_is_refused_with_what_to_write(there: LocalHost, free_ports: list[int]) -> None:
    with (
        pytest.raises(ServiceError) as refused,
        running(there, "nginx", free_ports[0], main=OWN_NGINX % b"{{ address }}:{{ port }}"),
    ):
        pass
    text = f"{refused.value.message}\n{refused.value.hint}"
    assert "invalid port in" in text
    assert "an IPv6 address needs brackets: write {{ endpoint }} in place of {{ address }}:{{ port }}" in text


@pytest.mark.parametrize("endpoint", [b"{{ endpoint }}", b"{{ address }}:{{ port }}"])
def test_own_file_at_an_ipv4_address_takes_both_forms(here: LocalHost, free_ports: list[int], endpoint: bytes) -> None:
    with running(here, "nginx", free_ports[0], main=OWN_NGINX % endpoint) as one:
        assert one.address == "127.0.0.1" and one.prove(here).live and Path(one.rendered.context.dir)
