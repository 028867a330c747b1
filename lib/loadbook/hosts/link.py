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

RECONNECT_S = 60.0
BUSY_S = 1.0

T = TypeVar("T")


class Link:
    """One session after the other to one host, one caller at a time; `reconnects` counts.

    A lost connection is opened again at once, so that jobs go on, and once more by the next call if need be.
    """

    def __init__(self, end: Endpoint, workdir: str, cpus: Sequence[int] | None, name: str) -> None:
        self.alias, self.workdir, self.shown = end.alias, workdir, end.shown
        self.reconnects = 0
        if not workdir.startswith("/"):
            raise HostError(self.alias, f"work folder {workdir!r} is not an absolute path")
        self._end, self._cpus, self._name = end, cpus, name
        self._session: Session | None = None
        self._closed = False
        self._lock = threading.RLock()

    def open(self) -> None:
        """Connect, prove the host key, create `workdir`; calling it again does nothing."""
        with self._lock:
            self._closed = False
            self._ready()

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

    def _ready(self) -> Session:
        if self._closed:
            raise HostError(self.alias, "the connection was closed by us")
        if self._session is None or not self._session.alive:
            dead = self._session
            if dead:
                dead.close(farewell=False)
            self._session = Session(self._end, self._name, self.workdir, self._cpus, fresh=dead is None)
            self.reconnects += dead is not None
            threading.Thread(target=self._follow, args=(self._session,), name="loadbook-follow", daemon=True).start()
        return self._session

    def _follow(self, session: Session) -> None:
        """Open a lost connection again at once, since the host ends our jobs when we stay away."""
        session.transport.join()
        with self._lock, suppress(HostError):
            if self._session is session and not self._closed:
                self._ready()

    def _once(self, doing: str, what: Callable[[Session], T]) -> T:
        """Do what could do harm when repeated."""
        with self._lock, talk_errors(self.alias, doing):
            return what(self._ready())

    def _again(self, doing: str, what: Callable[[Session], T]) -> T:
        """Do what may be repeated, over new connections if need be, for RECONNECT_S seconds."""
        deadline = time.monotonic() + RECONNECT_S
        while True:
            try:
                return self._once(doing, what)
            except (LostError, UnreachableError):
                if time.monotonic() > deadline or self._closed:
                    raise
                time.sleep(0.2)
