"""What the doctor says of permissions, and of hosts that are one machine."""

from __future__ import annotations

import pytest

from loadbook.hosts.doctor import _check_permissions, _shared_machines
from loadbook.hosts.host import CommandResult
from loadbook.hosts.inventory import HostEntry, HostsFile


@pytest.mark.parametrize(
    ("boots", "shared"),
    [
        ({"load": "1", "web": "2"}, []),
        ({"load": "1", "web": "1"}, ["load, web"]),
        ({"load": "1", "pinned": "1", "apart": "2"}, ["load, pinned"]),
        ({"pinned": "1", "apart": "1"}, []),
        ({"pinned": "1", "apart": "1", "web": "1"}, ["pinned, apart, web"]),
        ({"pinned": "1", "same": "1", "apart": "1"}, ["pinned, same"]),
    ],
)
def test_hosts_that_are_one_machine_and_share_cpus_are_named_together(boots, shared):
    masks = {"load": None, "web": None, "pinned": (0, 1), "same": (1, 2), "apart": (4,)}
    hosts = HostsFile(hosts={alias: HostEntry(roles=("web",), cpus=mask) for alias, mask in masks.items()})
    found = list(_shared_machines(hosts, boots))
    assert [check.host for check in found] == shared
    assert all((check.subject, check.status) == ("machine", "doubt") for check in found)


class Permitting:
    """A host that answers the doctor's question on permissions with the lines that the script prints."""

    alias = "web1"

    def script(self, text, *, timeout_s):
        printed = b"sysctl ok kernel settings can be written\ntc doubt rates only\nsystem missing flock\n"
        return CommandResult(0, printed, b"")


def test_each_permission_of_the_hosts_file_is_checked():
    requested = ("sysctl", "tc", "nft", "system")
    found = list(_check_permissions(Permitting(), requested))  # type: ignore[arg-type]
    assert [(check.subject, check.status, check.observation) for check in found] == [
        ("may sysctl", "ok", "kernel settings can be written"),
        ("may tc", "doubt", "rates only"),
        ("may nft", "missing", "not found on this host"),
        ("may system", "missing", "flock"),
    ]
    assert found[0].fix == "" and "made in userspace" in found[1].fix and "take system out of `allow`" in found[3].fix
    assert list(_check_permissions(Permitting(), ())) == []  # type: ignore[arg-type]
