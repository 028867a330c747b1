"""What a lab stands on: addresses of the loopback device, or (netns.py) network namespaces."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from loadbook.core.errors import UsageError
from loadbook.hosts.inventory import Permit
from loadbook.hosts.sshd import Sshd

FIRST_PORT, FIRST_SERVICE_PORT = 22022, 18080
NO_LINKS = "the loopback lab has no links that could be cut"


class Ground(Protocol):
    """One kind of lab."""

    @property
    def may(self) -> tuple[Permit, ...]:
        """What loadbook may change on its hosts."""
        ...

    def check(self) -> None:
        """Raise UsageError where such a lab cannot be."""
        ...

    def net(self, known: Sequence[str]) -> str:
        """Return the first three parts of its hosts' addresses; `known` are the addresses that it had."""
        ...

    def place(self, alias: str, address: str, cpus: tuple[int, ...] | None, old: Sshd | None) -> Sshd:
        """Return a host at an address, as it was there (`old`) if that can be had again."""
        ...

    def entered(self, server: Sshd) -> Sshd:
        """Return a recorded host with the way into it."""
        ...

    def serves_at(self, server: Sshd) -> str:
        """Return the address that a host's services have."""
        ...

    def build(self, servers: Sequence[Sshd]) -> None:
        """Make whatever the hosts stand in, as far as it is not there."""
        ...

    def clear(self, aliases: Sequence[str] | None = None) -> None:
        """Remove what these hosts stand in; None: everything of this lab, whoever left it there."""
        ...

    def cut(self, server: Sshd, seconds: float) -> None:
        """Cut a host off; its link is there again after so many seconds, whatever becomes of us."""
        ...

    def join(self, server: Sshd) -> None:
        """Give a host its link back."""
        ...

    def is_cut(self, server: Sshd) -> bool:
        """Tell whether a host is cut off."""
        ...


@dataclass(frozen=True)
class Loopback:
    """Hosts on `first`.1, `first`.2, ... of the loopback device, as the invoking user: nothing may be changed there."""

    folder: Path
    first: str
    may: tuple[Permit, ...] = ()

    def check(self) -> None:
        """Do nothing: every machine has a loopback device."""

    def net(self, known: Sequence[str]) -> str:
        """Return the net that the lab was told to use."""
        return self.first

    def place(self, alias: str, address: str, cpus: tuple[int, ...] | None, old: Sshd | None) -> Sshd:
        """Keep the ports that the host had, if they can be had again."""
        if old and (old.pid() is not None or _is_free(address, old.port)):
            return Sshd(alias, address, old.port, old.service_port, cpus, old.folder)
        port = _free_port(address, FIRST_PORT)
        # another lab on this address holds its SSH port all the time, but its service port during trials only
        service_port = _free_port(address, FIRST_SERVICE_PORT + port - FIRST_PORT)
        return Sshd(alias, address, port, service_port, cpus, self.folder / alias)

    def entered(self, server: Sshd) -> Sshd:
        """Return the host as it is."""
        return server

    def serves_at(self, server: Sshd) -> str:
        """Return its only address."""
        return server.address

    def build(self, servers: Sequence[Sshd]) -> None:
        """Do nothing: every address of the device is there."""

    def clear(self, aliases: Sequence[str] | None = None) -> None:
        """Do nothing: nothing was made."""

    def cut(self, server: Sshd, seconds: float) -> None:
        """Raise UsageError."""
        raise UsageError(NO_LINKS, "as root: loadbook lab up --kind netns")

    def join(self, server: Sshd) -> None:
        """Raise UsageError."""
        raise UsageError(NO_LINKS, "as root: loadbook lab up --kind netns")

    def is_cut(self, server: Sshd) -> bool:
        """Return False."""
        return False


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, port))
        except OSError:
            return False
    return True


def _free_port(address: str, first: int) -> int:
    for port in range(first, first + 500):
        if _is_free(address, port):
            return port
    raise UsageError(f"no free port on {address} from {first} to {first + 500}")
