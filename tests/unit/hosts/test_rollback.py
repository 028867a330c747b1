"""What a trial changes of a host is set, read back and put back, whatever ends it; in namespaces of their own."""

from __future__ import annotations

import pytest

from loadbook.core.errors import UsageError
from loadbook.hosts.rollback import HostChanges, permission_problem

BACKLOG = "net.core.somaxconn"


def test_host_changes_are_limited_to_what_the_hosts_file_allows():
    changes = HostChanges(
        {BACKLOG: 1}, delay_ms=5, destination="192.0.2.1", quotas={"web": 1}, accepted_addresses=("192.0.2.9",)
    )
    assert changes.required_permissions() == ["sysctl", "tc", "cgroup", "nft"]
    assert (
        permission_problem("web1", ("sysctl", "tc", "cgroup", "nft"), changes.required_permissions(), "this study")
        is None
    )
    said = permission_problem("web1", ("sysctl", "cgroup"), changes.required_permissions(), "this study")
    assert said is not None
    assert said.startswith("host web1: this study: needs tc, nft, which the hosts file does not allow")
    assert 'allow = ["sysctl", "cgroup", "tc", "nft"]' in said


@pytest.mark.parametrize(
    "changes",
    [
        HostChanges({"net.core.somaxconn": "1; reboot"}),
        HostChanges({"../../etc/passwd": 1}),
        HostChanges({"net.core.somaxconn": "1\n2"}),
        HostChanges(delay_ms=1, destination="$(reboot)"),
        HostChanges(quotas={"web": 0.001}),
        HostChanges(accepted_addresses=("-x",)),
    ],
)
def test_invalid_setting_values_never_reach_a_host(changes):
    with pytest.raises(UsageError):
        changes.script_lines()


def test_trial_record_lists_host_changes():
    changes = HostChanges({BACKLOG: 5}, delay_ms=100, destination="x", quotas={"web": 0.5})
    assert changes.to_record() == {BACKLOG: "5", "delay_ms": 100, "cpu_quota of web": 0.5}
    assert changes.script_lines() == [f"sysctl {BACKLOG} 5", "path x 100000 0 0", "quota web 50"]
