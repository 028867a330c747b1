"""The same over SSH: the service on one host of the lab, asked from another."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from loadbook.hosts.host import Host
from loadbook.services import Instance, InstanceContext, ServiceError, ServiceSpec, load_service, render, version
from toy_service import toy_service

Connect = Callable[..., Host]
NGINX = load_service("nginx")
PORT = 18080
_number = count()


NOBODY = {"node": "nobody", "address": "127.0.0.1", "port": 1, "dir": "/nowhere", "local": True}


def instance(host: Host, spec: ServiceSpec, **values: str | int) -> Instance:
    name = f"services-{next(_number)}-web"
    place = InstanceContext.for_instance(host, name, PORT, {"backends": [NOBODY]})
    return Instance(host, spec, render(spec, values, place), name=name, lease_s=60.0)


@pytest.mark.parametrize(
    "kind, values",
    [("nginx", {"tls": "on"}), ("toy", {}), ("haproxy", {"tls": "on"}), ("httpd", {}), ("redis", {"keys": 1000})],
)
def test_service_over_ssh_starts_proves_its_configuration_and_cleans_up(
    connect_lab: Connect, tmp_path: Path, kind: str, values: dict[str, str | int]
) -> None:
    driver, host = connect_lab("driver"), connect_lab("web")
    spec = toy_service(tmp_path) if kind == "toy" else load_service(kind)
    assert version(host, spec)[0].isdigit()
    web = instance(host, spec, **values)
    try:
        web.check()
        web.start()
        web.ready(driver)
        proof = web.prove(driver)
        assert proof.live, proof.evidence
        assert proof.pids
        assert all(count >= 0 for count in web.counters(driver).values())
    finally:
        web.stop()
    assert web.pids() == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in proof.pids)
    assert not host.exists(web.rendered.context.dir)


def test_old_server_still_on_the_port_is_detected(connect_lab: Connect) -> None:
    driver, host = connect_lab("driver"), connect_lab("web")
    old, new = instance(host, NGINX), instance(host, NGINX)
    try:
        for web in (old, new):
            web.check()
            web.start()
            web.ready(driver)
        proof = new.prove(driver)
        assert proof.live is False and old.rendered.config_id in proof.evidence
        assert old.prove(driver).live
    finally:
        new.stop()
        old.stop()


def test_error_of_a_service_that_exits_on_a_host_contains_its_output(connect_lab: Connect, tmp_path: Path) -> None:
    driver, host = connect_lab("driver"), connect_lab("web")
    web = instance(host, toy_service(tmp_path), option="-Z")
    try:
        web.check()
        web.start()
        with pytest.raises(ServiceError, match=r"(?s)host web: toy ended with exit code 2: .*[Uu]nknown option"):
            web.ready(driver)
    finally:
        web.stop()
