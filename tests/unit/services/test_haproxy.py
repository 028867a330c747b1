"""HAProxy before two nodes: connections and requests, TLS, checks, what it counts; real processes."""

from typing import Any

import pytest

from loadbook.core.errors import StudyError
from loadbook.services import InstanceContext, load_service, render

HAPROXY = load_service("haproxy")


def test_haproxy_without_backends_is_refused() -> None:
    with pytest.raises(StudyError, match="haproxy needs a role behind it"):
        render(HAPROXY, {}, InstanceContext("/w/t1", "127.0.0.1", 18080))


def test_haproxy_configuration_contains_every_value() -> None:
    behind = [{"node": "a", "address": "10.0.0.1", "port": 80, "dir": "/w/a", "local": False}]
    values: dict[str, Any] = {
        "balance": "least-conn", "http_reuse": "always", "nbthread": 2, "maxconn": 900, "check": "tcp",
    }  # fmt: skip
    text = (
        render(HAPROXY, values, InstanceContext("/w", "10.0.0.9", 443, {"backends": behind}))
        .files["haproxy.cfg"]
        .decode()
    )
    for line in ("balance leastconn", "http-reuse always", "nbthread 2", "maxconn 900", "server a 10.0.0.1:80 check"):
        assert f"    {line}\n" in text
