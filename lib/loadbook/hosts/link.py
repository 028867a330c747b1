"""The connection of a host over its whole life: opened, lost, opened again, closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from loadbook.core.errors import HostError, LostError, UnreachableError
from loadbook.hosts.connection import talk_errors
from loadbook.hosts.session import Session
from loadbook.hosts.ssh_config import Endpoint

# how long a host may be out of reach before it counts as lost
RECONNECT_S = 60.0
PAUSE_S = 0.2
BUSY_S = 1.0

T = TypeVar("T")


class Link:
    """One session after the other to one host, one caller at a time; `reconnects` counts.

    A lost connection is opened again at once, so that jobs go on, for RECONNECT_S seconds from its loss; whoever calls
    later gets one try.
    """

    def __init__(self, end: Endpoint, workdir: str, cpus: Sequence[int] | None, name: str) -> None:
        self.alias, self.workdir, self.shown = end.alias, workdir, end.shown
        self.reconnects = 0
        if not workdir.startswith("/"):
            raise HostError(self.alias, f"work folder {workdir!r} is not an absolute path")
        self._end, self._cpus, self._name = end, cpus, name
        self._session: Session | None = None
        self._closed = False
        self._lost_at: float | None = None
        self._machine = ""
        self._lock = threading.RLock()

    def open(self) -> None:
        """Connect, prove the host key, create `workdir`; calling it again does nothing."""
        self._closed = False
        self._again("connecting", lambda session: None)

    def reopen(self) -> None:
        """Close, which ends our jobs, and connect anew; a host out of reach is tried until it counts as lost."""
        self.close()
        self._lost_at = self._lost_at or time.monotonic()
        self.open()

    def close(self) -> None:
        """Close the connection; jobs that end with us have ended when this returns.

        A call that another thread still waits for is cut off after BUSY_S seconds, and the jobs end a little later.
        """
        self._closed = True
        idle = self._lock.acquire(timeout=BUSY_S)
        session, self._session = self._session, None
        try:
            if session:
                with suppress(HostError), talk_errors(self.alias, "closing"):
                    session.close(farewell=idle)
        finally:
            if idle:
                self._lock.release()

    def abandon(self) -> None:
        """Drop the connection without a word, whoever waits for what: the host ends our jobs when it notices."""
        self._closed = True
        session, self._session = self._session, None
        if session:
            with suppress(HostError), talk_errors(self.alias, "closing"):
                session.close(farewell=False)

    def _ready(self) -> Session:
        if self._closed:
            raise HostError(self.alias, _CLOSED)
        session = self._session
        if session is None or not session.alive:
            session = self._connect()
        self._lost_at = None
        return session

    def _connect(self) -> Session:
        dead = self._session
        if dead:
            self._lose(dead)
        fresh, machine = dead is None, self._machine
        session = Session(self._end, self._name, self.workdir, self._cpus, fresh=fresh, machine=machine)
        if self._closed:  # meanwhile, by another thread
            session.close(farewell=False)
            raise HostError(self.alias, _CLOSED)
        self._session, self._machine = session, session.machine
        self.reconnects += self._lost_at is not None
        threading.Thread(target=self._follow, args=(session,), name="loadbook-follow", daemon=True).start()
        return session

    def _lose(self, session: Session) -> None:
        self._lost_at = self._lost_at or time.monotonic()
        session.close(farewell=False)

    def _follow(self, session: Session) -> None:
        """Open a lost connection again at once, since the host ends our jobs when we stay away."""
        session.transport.join()
        with self._lock:
            if self._session is not session or self._closed:
                return
            self._lose(session)
        with suppress(HostError):
            self._again("connecting again", lambda session: None)

    def _once(self, doing: str, what: Callable[[Session], T]) -> T:
        """Do what could do harm when repeated."""
        with self._lock, talk_errors(self.alias, doing):
            return what(self._ready())

    def _again(self, doing: str, what: Callable[[Session], T]) -> T:
        """Do what may be repeated, over new connections if need be, until the host counts as lost."""
        while True:
            try:
                return self._once(doing, what)
            except (LostError, UnreachableError):
                if self._closed or not self._may_come_back():
                    raise
                time.sleep(PAUSE_S)

    def _may_come_back(self) -> bool:
        if self._session is not None:  # it was there once, and nobody may have noticed yet that it is gone
            self._lost_at = self._lost_at or time.monotonic()
        return self._lost_at is not None and time.monotonic() < self._lost_at + RECONNECT_S


_CLOSED = "the connection was closed by us"
