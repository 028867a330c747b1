"""Monitors of hosts that are polled until there are answers."""

from __future__ import annotations

from loadbook.hosts.inventory import HostEntry
from loadbook.hosts.monitors import MonitorClient, Poller, connect_monitor
from waiting import wait_until


class Counted:
    """Passes on to a real asker, and counts the whole answers."""

    def __init__(self, own: MonitorClient) -> None:
        self.own, self.answers = own, 0

    def query(self) -> str:
        answer = self.own.query()
        self.answers += 1
        return answer

    def close(self) -> None:
        self.own.close()


def poll(host, entry: HostEntry, source: str) -> tuple[bytes, str]:
    """Ask until there are four answers, or it has ended early."""
    requested = connect_monitor(host, entry, source)
    assert requested is not None
    counted = Counted(requested)
    poller = Poller(source, counted, 0.1)
    wait_until(lambda: counted.answers >= 4 or poller.problem)
    data = poller.stop()
    assert poller.stop() == b""
    return data, poller.problem
