"""What a trial changes of a host is set, read back and put back, whatever ends it; in namespaces of their own."""

from __future__ import annotations

import pytest

from loadbook.core.errors import UsageError
from loadbook.hosts.host import CommandResult
from loadbook.hosts.rollback import (
    HostChanges,
    NotRestoredError,
    cgroup_file,
    permission_problem,
    restore,
    rollback_job,
    wait_for_changes,
)

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
    printed = permission_problem("web1", ("sysctl", "cgroup"), changes.required_permissions(), "this study")
    assert printed is not None
    assert printed.startswith("host web1: this study: needs tc, nft, which the hosts file does not allow")
    assert 'allow = ["sysctl", "cgroup", "tc", "nft"]' in printed


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


def test_changes_of_a_setting_take_precedence_over_those_before():
    first = HostChanges({"a.b": 1, "c.d": 2}, 5, 0.1, 100, "x", {"web": 1, "lb": 2}, ("192.0.2.1",), ("ip a",))
    then = HostChanges({"a.b": 3}, 7, 0.2, 10, "y", {"web": 0.5}, ("192.0.2.1", "192.0.2.2"), ("ip b",))
    assert first | HostChanges() == first == HostChanges() | first
    assert first | then == HostChanges(
        {"a.b": 3, "c.d": 2}, 7, 0.2, 10, "y", {"web": 0.5, "lb": 2}, ("192.0.2.1", "192.0.2.2"), ("ip a", "ip b")
    )


def test_changes_of_the_network_are_in_microseconds_percent_and_kilobits():
    changes = HostChanges(delay_ms=1.5, loss=0.02, rate_mbit=0.5, accepted_addresses=("192.0.2.9",), tables=("ip t",))
    assert changes.script_lines() == ["path all 1500 2 500", "accept 192.0.2.9", "table ip t"]
    assert changes.to_record() == {"delay_ms": 1.5, "loss": 0.02, "rate_mbit": 0.5, "accepts": "192.0.2.9"}
    assert HostChanges(quotas={"web": 0.05}).script_lines() == ["quota web 5"]
    assert [c.required_permissions() for c in (HostChanges(loss=1), HostChanges(rate_mbit=1))] == [["tc"], ["tc"]]
    assert HostChanges(tables=("ip t",)).required_permissions() == ["nft"]


class Answering:
    """A host that says what was written down, and keeps what it was asked."""

    alias = "web1"

    def __init__(self, output: str, rc: int = 0, error: str = "") -> None:
        self.answer = CommandResult(rc, output.encode(), error.encode())
        self.requested: list[tuple[str, ...]] = []

    def script(self, text, args, *, timeout_s):
        self.requested.append(tuple(args))
        return self.answer


def test_restored_settings_are_listed_and_what_is_left_is_an_error():
    host = Answering("done net.core.somaxconn is 128 again\nother line\n")
    assert restore(host, "job") == ["net.core.somaxconn is 128 again"]  # type: ignore[arg-type]
    restore(host, retry=True)  # type: ignore[arg-type]
    assert host.requested == [("restore", "job"), ("again",)]
    for left, printed in (
        (Answering("done a\nleft b is 7\n"), "  b is 7"),
        (Answering("", 1, "no folder"), "no folder"),
    ):
        with pytest.raises(NotRestoredError, match="is not as it was found") as error:
            restore(left)  # type: ignore[arg-type]
        assert printed in error.value.message and "loadbook restore" in error.value.hint


@pytest.mark.parametrize(
    ("output", "problem"),
    [("done\n", None), ("refused tc: no netem\n", "tc: no netem"), ("", "the job on the host printed nothing")],
)
def test_job_that_changes_a_host_says_what_was_refused(output, problem):
    host = Answering(output)
    assert wait_for_changes(host, "job", 2.0) == problem  # type: ignore[arg-type]
    assert host.requested == [("jobs/job", "100")]  # fiftieths of a second


def test_changes_end_with_the_session_of_the_controller():
    job = rollback_job("job", ("guard", "x"), 60)
    assert job.ends_with_session and job.lease_s == 60 and job.steps == (("/bin/sh", "undo.sh", "guard", "x"),)
    assert cgroup_file("job", "web") == "jobs/job/cgroup-web"
