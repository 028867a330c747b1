"""Services that run on this machine for the duration of a `with` block."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from loadbook.services import Instance, InstanceContext, LaunchOptions, load_service, render
from local_host import LocalHost
from waiting import PATIENCE_S

_number = count()


@contextmanager
def running(
    host: LocalHost,
    service: str,
    port: int,
    *behind: Instance,
    main: bytes | None = None,
    launch: LaunchOptions = LaunchOptions(),  # noqa: B008
    node: str = "web1",
    **values: str | int,
) -> Iterator[Instance]:
    """Check and start a service with these backends, wait until it is ready, and stop it at the end."""
    name = f"t{next(_number):04}-a1-{service}"
    place = InstanceContext.for_instance(
        host, name, port, {"node": node, "backends": [as_backend(one) for one in behind]}
    )
    spec = load_service(service)
    one = Instance(host, spec, render(spec, values, place, main=main), name=name, lease_s=180.0, launch=launch)
    try:
        one.check()
        one.start()
        one.ready(host)
        yield one
    finally:
        one.stop()


def as_backend(one: Instance) -> Mapping[str, object]:
    """Return a service's entry in the variable `backends` of the service in front of it."""
    place = one.rendered.context
    known = {"address": place.address, "port": place.port, "dir": place.dir}
    return {"node": place.extra["node"], "local": True, **known}


def page(host: LocalHost, one: Instance, path: str = "/index.html") -> bytes:
    """Return the body of a page, which must exist."""
    answer = host.http_get(one.address, one.port, path, timeout_s=PATIENCE_S, scheme=one.rendered.scheme)
    assert answer.status == 200, answer
    return answer.body
