"""Every lab has addresses of its own: by user and folder, kept once recorded, and not those on which others listen."""

from __future__ import annotations

import socket
import sys
from itertools import islice
from pathlib import Path

import pytest

from loadbook.core.errors import UsageError
from loadbook.hosts import netns, sshd
from loadbook.hosts.netns import NamespaceNetwork
from loadbook.hosts.sshd import LabNetwork, Sshd, listening_subnets, loopback_subnets


def host(address: str, folder: Path = Path("/lab")) -> Sshd:
    return Sshd("web", address, 22022, 18080, None, folder / "web")


@pytest.fixture
def listen(monkeypatch):
    """`listen("127.3.4")`: programs listen in these networks, and no host of a lab is running."""
    taken: set[str] = set()
    monkeypatch.setattr(sshd, "listening_subnets", lambda: taken)
    monkeypatch.setattr(Sshd, "pid", lambda self: None)
    return lambda *subnets: taken.update(subnets)


def test_labs_of_two_folders_or_two_users_have_different_addresses(tmp_path, monkeypatch, listen):
    one, two = (LabNetwork(tmp_path / name).subnet([]) for name in ("one", "two"))
    assert one != two and one == LabNetwork(tmp_path / "one").subnet([])
    monkeypatch.setattr(sshd.os, "getuid", lambda: 123456)
    assert LabNetwork(tmp_path / "one").subnet([]) not in (one, two)


def test_addresses_of_a_lab_are_loopback_addresses_that_no_distribution_uses(tmp_path):
    subnets = list(loopback_subnets(tmp_path))
    assert len(set(subnets)) == len(subnets) == 254 * 256
    assert {subnet.split(".")[0] for subnet in subnets} == {"127"}
    assert {int(subnet.split(".")[1]) for subnet in subnets} == set(range(1, 255))


def test_new_lab_takes_the_next_addresses_where_another_program_listens(tmp_path, listen):
    first, second, third = islice(loopback_subnets(tmp_path), 3)
    listen(first, second)
    assert LabNetwork(tmp_path).subnet([]) == third
    listen(*loopback_subnets(tmp_path))
    with pytest.raises(UsageError, match="none is left for the lab"):
        LabNetwork(tmp_path).subnet([])


def test_lab_keeps_its_recorded_addresses_unless_another_program_listens_there(tmp_path, monkeypatch, listen):
    lab, recorded = LabNetwork(tmp_path), [host("127.0.1.1", tmp_path)]
    assert lab.subnet(recorded) == "127.0.1"  # of an earlier version
    listen("127.0.1")
    assert lab.subnet(recorded) == next(loopback_subnets(tmp_path))
    assert LabNetwork(tmp_path, "127.0.1").subnet(recorded) == "127.0.1"
    monkeypatch.setattr(Sshd, "pid", lambda self: 7)  # what listens there is the lab itself
    assert lab.subnet(recorded) == "127.0.1"


def test_networks_with_a_listening_program_are_read_from_the_kernels_table(tmp_path):
    def line(address: str, state: str) -> str:
        number = int.from_bytes(socket.inet_aton(address), sys.byteorder)
        return f"   0: {number:08X}:5606 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  0  0 7\n"

    table = tmp_path / "tcp"
    table.write_text("  sl  local_address rem_address   st\n" + line("127.9.8.7", "0A") + line("127.1.2.3", "01"))
    assert listening_subnets(table) == {"127.9.8"}
    assert listening_subnets(tmp_path / "none") == set()


def test_namespace_lab_keeps_its_network_unless_another_lab_has_it(monkeypatch):
    lab, recorded = NamespaceNetwork(Path("/lab")), [host("198.18.7.3")]
    routes, own = [], []
    monkeypatch.setattr(netns, "query_ip", lambda *args, **options: routes)
    monkeypatch.setattr(netns, "interface_addresses", lambda interface, namespace=None: own)
    assert lab.subnet(recorded) == "198.18.7"
    routes += [{"dst": "default"}, {"dst": "198.18.7.0/24"}]
    assert lab.subnet(recorded) not in ("198.18.7", NamespaceNetwork(Path("/other")).subnet([]))
    own.append("198.18.7.254")
    assert lab.subnet(recorded) == "198.18.7"
