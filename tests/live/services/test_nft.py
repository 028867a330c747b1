"""Packet rules as balancers, in namespaces: who gets the connections, which way answers go, and what stays: nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from loadbook.core.errors import StudyError
from loadbook.hosts.remote import connect
from loadbook.hosts.rollback import HostChanges, apply_changes
from loadbook.services import Instance, InstanceContext, ServiceError, load_service, render
from waiting import PATIENCE_S

pytestmark = pytest.mark.root
LEASE_S, PORT, BIG = 60.0, 80, 300_000


@pytest.fixture(scope="module")
def hosts(spaces):
    opened = {alias: connect(spaces.hosts_file, alias, "nft") for alias in spaces.hosts}
    yield opened
    for host in opened.values():
        host.close()


@contextmanager
def running(host, service: str, name: str, values=None, **extra) -> Iterator[Instance]:
    place = InstanceContext.for_instance(host, name, PORT, extra)
    instance = Instance(
        host, spec := load_service(service), render(spec, values or {}, place), name=name, lease_s=LEASE_S
    )
    try:
        instance.check()
        instance.start()
        instance.ready(host)
        assert instance.prove(host).live
        yield instance
    finally:
        instance.stop()


@contextmanager
def balanced(
    hosts, service: str, name: str, changes: dict[str, HostChanges], values=None, **extra
) -> Iterator[Instance]:
    """Two web servers, one page each, behind a balancer; nothing stands when it is over."""
    webs = [hosts["web"], hosts["web-2"]]
    with ExitStack() as stack:
        for alias, own in changes.items():
            apply_changes(hosts[alias], f"{name}-guard", own, LEASE_S)
            stack.callback(hosts[alias].stop, f"{name}-guard")
        for k, host in enumerate(webs):
            stack.enter_context(running(host, "nginx", f"{name}-web", {"page_bytes": BIG + k}, **extra))
        backends = [{"node": h.alias, "address": h.address, "port": PORT, "dir": "", "local": False} for h in webs]
        yield stack.enter_context(running(hosts["balancer"], service, name, values, backends=backends))


def who_answers(hosts, times: int) -> Counter[str]:
    balancer = hosts["balancer"].address
    bodies = [hosts["driver"].http_get(balancer, PORT, "/index.html", timeout_s=PATIENCE_S).body for _ in range(times)]
    return Counter({BIG: "web", BIG + 1: "web-2"}[len(body)] for body in bodies)


def sent_bytes(host) -> int:
    return int(host.run(["cat", "/sys/class/net/eth0/statistics/tx_bytes"], timeout_s=PATIENCE_S).stdout)


def tables(host) -> bytes:
    return host.run(["nft", "list", "tables"], timeout_s=PATIENCE_S, check=True).stdout


def test_nft_dnat_balances_round_robin_and_routes_responses_back(hosts):
    changes = {"balancer": HostChanges({"net.ipv4.ip_forward": 1})}
    with balanced(hosts, "nft-dnat", "dnat", changes) as rules:
        before = sent_bytes(hosts["balancer"])
        assert who_answers(hosts, 6) == {"web": 3, "web-2": 3}
        assert sent_bytes(hosts["balancer"]) - before > 6 * BIG
        assert rules.counters(hosts["balancer"]) == {"connections": 6}
        assert b"loadbook-80" in tables(hosts["balancer"])
    assert tables(hosts["balancer"]) == b""
    assert hosts["balancer"].get("/proc/sys/net/ipv4/ip_forward", max_bytes=9) == b"0\n"


def test_nft_dnat_can_balance_by_client_hash(hosts):
    changes = {"balancer": HostChanges({"net.ipv4.ip_forward": 1})}
    with balanced(hosts, "nft-dnat", "hash", changes, {"choose": "by-client"}):
        assert set(who_answers(hosts, 12)) == {"web", "web-2"}


def test_nft_dsr_responses_bypass_the_balancer(hosts):
    vip = hosts["balancer"].address
    changes = {alias: HostChanges(accepted_addresses=(vip,)) for alias in ("web", "web-2")}
    with balanced(hosts, "nft-dsr", "dsr", changes, also_at=[vip]) as rules:
        before = sent_bytes(hosts["balancer"])
        assert set(who_answers(hosts, 12)) == {"web", "web-2"}
        assert sent_bytes(hosts["balancer"]) - before < BIG
        assert rules.counters(hosts["balancer"]) == {"connections": 12}
    assert tables(hosts["balancer"]) == b""
    assert vip.encode() not in hosts["web"].run(["ip", "addr", "show", "dev", "lo"], timeout_s=PATIENCE_S).stdout


@pytest.mark.parametrize(
    ("backend", "words"),
    [({"port": 8080}, "backend web has port 8080: it must be 80"), ({"address": "203.0.113.9"}, "does not answer on")],
)
def test_nft_dsr_refuses_backends_outside_the_link(hosts, backend, words):
    usual = {"node": "web", "address": hosts["web"].address, "port": PORT, "dir": "", "local": False}
    with (
        pytest.raises(ServiceError, match=words),
        running(hosts["balancer"], "nft-dsr", f"wrong-{'-'.join(backend)}", backends=[usual | backend]),
    ):
        pass


@pytest.mark.parametrize("service", ["nft-dnat", "nft-dsr"])
def test_nft_balancer_without_backends_is_refused(service):
    with pytest.raises(StudyError, match="needs a role behind it"):
        render(load_service(service), {}, InstanceContext("/place", "192.0.2.1", PORT))
