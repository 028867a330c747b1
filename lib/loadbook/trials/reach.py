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
from loadbook.trials.bench import Bench

BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Reach:
    """The connections of a bench from now on."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._before = self._counts()

    def _counts(self) -> dict[str, int]:
        """Return how often each host had to be connected again; hosts that cannot lose us do not count."""
        return {alias: getattr(host, "reconnects", 0) for alias, host in self.bench.hosts.items()}

    @property
    def reconnects(self) -> int:
        """How often hosts had to be connected again."""
        return sum(self._counts().values()) - sum(self._before.values())

    def must_not_have_rebooted(self, boot_ids: Mapping[str, str]) -> None:
        """Compare the hosts' boots with what they were; the bench learns the new ones.

        Raises
        ------
        LostError : another boot. HostError : a host does not answer.
        """
        live = [alias for alias, host in self.bench.hosts.items() if host.live and alias in boot_ids]
        for alias, boot_id in self.bench.each(lambda alias: _boot_id(self.bench.hosts[alias]), live).items():
            self.bench.boot_ids[alias] = boot_id
            if boot_id != boot_ids[alias]:
                raise LostError(alias, "was rebooted during the trial")

    def behind(self, error: LoadbookError, boot_ids: Mapping[str, str]) -> LoadbookError:
        """Return what stands behind an error: the loss of a host meanwhile, else the error itself."""
        if isinstance(error, HostError) and error.transient:
            return error
        try:
            self.must_not_have_rebooted(boot_ids)
        except HostError as lost:
            return LostError(lost.host, f"{_words(lost)}; before that was noticed: {error.message}")
        try:
            self.must_have_held(error.message)
        except LostError as lost:
            return lost
        return error

    def must_have_held(self, trouble: str) -> None:
        """Raise LostError when a host was out of reach meanwhile, which `trouble` may have come of."""
        for alias, count in self._counts().items():
            if count > self._before[alias]:
                raise LostError(alias, f"was out of reach meanwhile: {trouble}")


def _boot_id(host: Host) -> str:
    # a file, and no command, so that nothing of it is recorded for replays
    return host.get(BOOT_ID, max_bytes=100).decode("ascii", "replace").strip()


def _words(error: HostError) -> str:
    return error.message.removeprefix(f"host {error.host}: ")


def come_back(bench: Bench) -> bool:
    """Open new connections to all hosts, waiting for those that are lost; tell whether all are there."""
    return all(bench.each(_reopen, bench.hosts.values()).values())


def _reopen(host: Host) -> bool:
    try:
        host.reopen()
    except HostError:
        return False
    return True


def close_all(bench: Bench, limit_s: float) -> None:
    """Close all hosts at the same time; after `limit_s` seconds, or when interrupted, without waiting for them."""
    # not by the bench's pool: whoever waits there is freed by this
    threads = [threading.Thread(target=_close, args=(host,), daemon=True) for host in bench.hosts.values()]
    try:
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + limit_s
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    finally:
        let_go(bench)


def _close(host: Host) -> None:
    with contextlib.suppress(HostError):
        host.close()


def let_go(bench: Bench) -> None:
    """Drop every connection: whoever waits for a host is freed, and the hosts end our jobs when they notice."""
    for host in bench.hosts.values():
        host.abandon()


def in_time(bench: Bench, calls: Sequence[Callable[[], None]], limit_s: float | None) -> None:
    """Make calls at the same time; what fails is suffered, hosts that need more than `limit_s` are let go."""
    begun = [bench.pool.submit(call) for call in calls]
    try:
        late = wait(begun, timeout=limit_s).not_done
    except BaseException:
        let_go(bench)
        raise
    if late:
        let_go(bench)
    for ended in set(begun) - late:
        with contextlib.suppress(LoadbookError):  # how the trial went is known by now, and must be kept
            ended.result()
