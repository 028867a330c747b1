"""Were the hosts there all the time? What stood behind an error; hosts back after an outage; an end without waiting.

A host that was out of reach for a while looks like a server that does not answer or a program that ended: an attempt
that failed meanwhile was lost, and another may do better.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait

from loadbook.core.errors import HostError, LoadbookError, LostError
from loadbook.hosts.host import Host
from loadbook.trials.bench import Testbed

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"


class Connectivity:
    """The connections of a testbed from now on."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self._before = self._reconnect_counts()

    def _reconnect_counts(self) -> dict[str, int]:
        """Return how often each host had to be connected again; hosts that cannot lose us do not count."""
        return {alias: getattr(host, "reconnects", 0) for alias, host in self.testbed.hosts.items()}

    @property
    def reconnects(self) -> int:
        """How often hosts had to be connected again."""
        return sum(self._reconnect_counts().values()) - sum(self._before.values())

    def check_not_rebooted(self, boot_ids: Mapping[str, str]) -> None:
        """Compare the hosts' boots with what they were; the testbed learns the new ones.

        Raises
        ------
        LostError : another boot. HostError : a host does not answer.
        """
        live = [alias for alias, host in self.testbed.hosts.items() if host.live and alias in boot_ids]
        for alias, boot_id in self.testbed.map(lambda alias: _read_boot_id(self.testbed.hosts[alias]), live).items():
            self.testbed.boot_ids[alias] = boot_id
            if boot_id != boot_ids[alias]:
                raise LostError(alias, "was rebooted during the trial")

    def root_cause(self, error: LoadbookError, boot_ids: Mapping[str, str]) -> LoadbookError:
        """Return what stands behind an error: the loss of a host meanwhile, else the error itself."""
        if isinstance(error, HostError) and error.transient:
            return error
        try:
            self.check_not_rebooted(boot_ids)
        except HostError as lost:
            return LostError(lost.host, f"{_message_without_host(lost)}; before that was noticed: {error.message}")
        try:
            self.check_connected(error.message)
        except LostError as lost:
            return lost
        return error

    def check_connected(self, trouble: str) -> None:
        """Raise LostError when a host was out of reach meanwhile, which `trouble` may have come of."""
        for alias, count in self._reconnect_counts().items():
            if count > self._before[alias]:
                raise LostError(alias, f"was out of reach meanwhile: {trouble}")


def _read_boot_id(host: Host) -> str:
    # a file, and no command, so that nothing of it is recorded for replays
    return host.get(BOOT_ID_FILE, max_bytes=100).decode("ascii", "replace").strip()


def _message_without_host(error: HostError) -> str:
    return error.message.removeprefix(f"host {error.host}: ")


def reconnect_all(testbed: Testbed) -> bool:
    """Open new connections to all hosts, waiting for those that are lost; tell whether all are there."""
    return all(testbed.map(_reopen, testbed.hosts.values()).values())


def _reopen(host: Host) -> bool:
    try:
        host.reopen()
    except HostError:
        return False
    return True


def close_all(testbed: Testbed, limit_s: float) -> None:
    """Close all hosts at the same time; after `limit_s` seconds, or when interrupted, without waiting for them."""
    # not by the testbed's pool: whoever waits there is freed by this
    threads = [threading.Thread(target=_close_quietly, args=(host,), daemon=True) for host in testbed.hosts.values()]
    try:
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + limit_s
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    finally:
        abandon_all(testbed)


def _close_quietly(host: Host) -> None:
    with contextlib.suppress(HostError):
        host.close()


def abandon_all(testbed: Testbed) -> None:
    """Drop every connection: whoever waits for a host is freed, and the hosts end our jobs when they notice."""
    for host in testbed.hosts.values():
        host.abandon()


def run_within(testbed: Testbed, calls: Sequence[Callable[[], None]], limit_s: float | None) -> None:
    """Make calls at the same time; what fails is suffered, hosts that need more than `limit_s` are let go."""
    begun = [testbed.pool.submit(call) for call in calls]
    try:
        late = wait(begun, timeout=limit_s).not_done
    except BaseException:
        abandon_all(testbed)
        raise
    if late:
        abandon_all(testbed)
    for ended in set(begun) - late:
        with contextlib.suppress(LoadbookError):  # how the trial went is known by now, and must be kept
            ended.result()
