"""A host for the whole test session, on which each service is compiled or unpacked only once."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loadbook.services import Instance, InstanceContext, ServiceSpec, load_service, render
from local_host import LocalHost
from ports import kept_port

needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="Go is not there: apt-get install golang-go")
needs_node = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not there: apt-get install nodejs npm")
Running = Callable[..., Instance]


def backend(port: int) -> dict[str, Any]:
    return {"node": "behind", "address": "127.0.0.1", "port": port, "dir": "/nowhere", "local": True}


def placed(host: LocalHost, spec: ServiceSpec, extra: dict[str, Any], values: dict[str, Any]) -> Instance:
    port = kept_port()
    name = f"{spec.name}-{port}"
    place = InstanceContext.for_instance(host, name, port, {"node": "web1", "cpus": [0, 1], **extra})
    return Instance(host, spec, render(spec, values, place), name=name, lease_s=30.0)


@contextmanager
def runner(host: LocalHost) -> Iterator[Running]:
    """Yield a function that starts a service and waits until it is ready and verified; all are stopped at the end."""
    begun: list[Instance] = []

    def start(service: str, extra: dict[str, Any] | None = None, **values: Any) -> Instance:
        begun.append(placed(host, load_service(service), extra or {}, values))
        begun[-1].check()
        begun[-1].start()
        begun[-1].ready(host)
        proof = begun[-1].prove(host)
        assert proof.live and proof.pids, proof.evidence
        return begun[-1]

    try:
        yield start
    finally:
        for one in begun:
            one.stop()


def share_built(host: LocalHost, built: Path) -> None:
    Path(host.workdir).mkdir(parents=True, exist_ok=True)
    Path(host.workdir, "built").symlink_to(built)
