"""The connection of a host over its whole life: opened, lost, opened again, closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from loadbook.core.errors import HostError, LostError, UnreachableError
from loadbook.hosts.connection import map_ssh_errors
from loadbook.hosts.session import SshSession
from loadbook.hosts.ssh_config import Endpoint

# how long a host may be out of reach before it counts as lost
RECONNECT_TIMEOUT_S = 60.0
RECONNECT_PAUSE_S = 0.2
BUSY_TIMEOUT_S = 1.0

T = TypeVar("T")


class ReconnectingSession:
    """One session after the other to one host, one caller at a time; `reconnects` counts.

    A lost connection is opened again at once, so that jobs go on, for RECONNECT_TIMEOUT_S seconds from its loss; whoever calls
    later gets one try.
    """

    def __init__(self, endpoint: Endpoint, workdir: str, cpus: Sequence[int] | None, name: str) -> None:
        self.alias, self.workdir, self.destination = endpoint.alias, workdir, endpoint.destination
        self.reconnects = 0
        if not workdir.startswith("/"):
            raise HostError(self.alias, f"work folder {workdir!r} is not an absolute path")
        self._endpoint, self._cpus, self._name = endpoint, cpus, name
        self._session: SshSession | None = None
        self._closed = False
        self._lost_at: float | None = None
        self._machine = ""
        self._lock = threading.RLock()

    def open(self) -> None:
        """Connect, prove the host key, create `workdir`; calling it again does nothing."""
        self._closed = False
        self._call_with_retry("connecting", lambda session: None)

    def reopen(self) -> None:
        """Close, which ends our jobs, and connect anew; a host out of reach is tried until it counts as lost."""
        self.close()
        self._lost_at = self._lost_at or time.monotonic()
        self.open()

    def close(self) -> None:
        """Close the connection; jobs that end with us have ended when this returns.

        A call that another thread still waits for is cut off after BUSY_TIMEOUT_S seconds, and the jobs end a little later.
        """
        self._closed = True
        acquired = self._lock.acquire(timeout=BUSY_TIMEOUT_S)
        session, self._session = self._session, None
        try:
            if session:
                with suppress(HostError), map_ssh_errors(self.alias, "closing"):
                    session.close(graceful=acquired)
        finally:
            if acquired:
                self._lock.release()

    def abandon(self) -> None:
        """Drop the connection without a word, whoever waits for what: the host ends our jobs when it notices."""
        self._closed = True
        session, self._session = self._session, None
        if session:
            with suppress(HostError), map_ssh_errors(self.alias, "closing"):
                session.close(graceful=False)

    def _open_session(self) -> SshSession:
        if self._closed:
            raise HostError(self.alias, _CLOSED_MESSAGE)
        session = self._session
        if session is None or not session.alive:
            session = self._connect()
        self._lost_at = None
        return session

    def _connect(self) -> SshSession:
        lost = self._session
        if lost:
            self._mark_lost(lost)
        is_new, machine = lost is None, self._machine
        session = SshSession(self._endpoint, self._name, self.workdir, self._cpus, fresh=is_new, machine=machine)
        if self._closed:  # meanwhile, by another thread
            session.close(graceful=False)
            raise HostError(self.alias, _CLOSED_MESSAGE)
        self._session, self._machine = session, session.machine_id
        self.reconnects += self._lost_at is not None
        threading.Thread(target=self._reconnect_when_lost, args=(session,), name="loadbook-follow", daemon=True).start()
        return session

    def _mark_lost(self, session: SshSession) -> None:
        self._lost_at = self._lost_at or time.monotonic()
        session.close(graceful=False)

    def _reconnect_when_lost(self, session: SshSession) -> None:
        """Open a lost connection again at once, since the host ends our jobs when we stay away."""
        session.transport.join()
        with self._lock:
            if self._session is not session or self._closed:
                return
            self._mark_lost(session)
        with suppress(HostError):
            self._call_with_retry("connecting again", lambda session: None)

    def _call_once(self, action: str, call: Callable[[SshSession], T]) -> T:
        """Do what could do harm when repeated."""
        with self._lock, map_ssh_errors(self.alias, action):
            return call(self._open_session())

    def _call_with_retry(self, action: str, call: Callable[[SshSession], T]) -> T:
        """Do what may be repeated, over new connections if need be, until the host counts as lost."""
        while True:
            try:
                return self._call_once(action, call)
            except (LostError, UnreachableError):
                if self._closed or not self._may_reconnect():
                    raise
                time.sleep(RECONNECT_PAUSE_S)

    def _may_reconnect(self) -> bool:
        if self._session is not None:  # it was there once, and nobody may have noticed yet that it is gone
            self._lost_at = self._lost_at or time.monotonic()
        return self._lost_at is not None and time.monotonic() < self._lost_at + RECONNECT_TIMEOUT_S


_CLOSED_MESSAGE = "the connection was closed by us"
