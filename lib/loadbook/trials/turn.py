"""Whose turn it is: hosts that another run uses are refused at once, or waited for while none of them is held.

Whoever held one host and waited for another would keep both from everybody, and two such runs for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from loadbook.core.errors import HostError
from loadbook.core.units import seconds
from loadbook.hosts import connect
from loadbook.hosts.host_lock import LOCK, InUseError, Owner, ask_text, owners_in
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.jobs import launcher
from loadbook.trials.progress import OnEvent, Progress

# the host measures for somebody else meanwhile: each look costs it some milliseconds
LOOK_EVERY_S = 3.0
TELL_EVERY_S = 60.0
LOOK_S = 20.0

T = TypeVar("T")


@dataclass(frozen=True)
class Turn:
    """What to do about hosts in use: wait so many seconds, and end the owner with this id, typed by the user."""

    wait_s: float = 0.0
    break_lock: str = ""


def when_free(start: Callable[[], T], hosts_file: Path, wait_s: float, on_event: OnEvent) -> T:
    """Return what `start` returns, tried again when the host that refused it is free, `wait_s` long from then.

    Raises
    ------
    InUseError : of the last try, when the time is up.
    """
    deadline = None
    while True:
        try:
            return start()
        except InUseError as error:
            deadline = deadline or time.monotonic() + wait_s
            if time.monotonic() >= deadline:
                raise
            _await(hosts_file, error, deadline, on_event)


def _await(hosts_file: Path, refused: InUseError, deadline: float, on_event: OnEvent) -> None:
    """Look every few seconds, over a connection that claims nothing, until nobody holds the host or the time is up."""
    owner = refused.owner
    lock = read_hosts(hosts_file).hosts[refused.host].lock or LOCK
    told = time.monotonic()
    on_event(Progress("note", _said(refused.host, owner, deadline)))
    with suppress(HostError):  # one that is away is asked again by the next try, which says so
        host = connect(hosts_file, refused.host, "waiting")
        try:
            while time.monotonic() < deadline:
                if time.monotonic() - told >= TELL_EVERY_S:
                    told = time.monotonic()
                    on_event(Progress("note", _said(refused.host, owner, deadline)))
                time.sleep(min(LOOK_EVERY_S, max(0.0, deadline - time.monotonic())))
                answer = host.script(ask_text(launcher()[0], "owners", lock), timeout_s=LOOK_S).stdout
                if not (owners := owners_in(answer)):
                    return
                owner = owners[0]
        finally:
            host.close()


def _said(alias: str, owner: Owner, deadline: float) -> str:
    left = deadline - time.monotonic()
    limit = "" if left == float("inf") else f", for {seconds(left)} at most"
    return f"waiting for host {alias}{limit}: in use by {owner.said}"
