"""What a lab stands on: addresses of the loopback device, or (netns.py) network namespaces."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from loadbook.core.errors import UsageError
from loadbook.hosts.inventory import Permission
from loadbook.hosts.sshd import Sshd

FIRST_SSH_PORT, FIRST_SERVICE_PORT = 22022, 18080
NO_LINKS_MESSAGE = "the loopback lab has no links that could be cut"


class LabNetwork(Protocol):
    """One kind of lab."""

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """What loadbook may change on its hosts."""
        ...

    def check(self) -> None:
        """Raise UsageError where such a lab cannot be."""
        ...

    def subnet(self, known_addresses: Sequence[str]) -> str:
        """Return the first three parts of its hosts' addresses; `known_addresses` are the addresses that it had."""
        ...

    def assign_server(self, alias: str, address: str, cpus: tuple[int, ...] | None, previous: Sshd | None) -> Sshd:
        """Return a host at an address, as it was there (`previous`) if that can be had again."""
        ...

    def with_enter_command(self, server: Sshd) -> Sshd:
        """Return a recorded host with the way into it."""
        ...

    def service_address(self, server: Sshd) -> str:
        """Return the address that a host's services have."""
        ...

    def build(self, servers: Sequence[Sshd]) -> None:
        """Make whatever the hosts stand in, as far as it is not there."""
        ...

    def clear(self, aliases: Sequence[str] | None = None) -> None:
        """Remove what these hosts stand in; None: everything of this lab, whoever left it there."""
        ...

    def cut_link(self, server: Sshd, seconds: float) -> None:
        """Cut a host off; its link is there again after so many seconds, whatever becomes of us."""
        ...

    def restore_link(self, server: Sshd) -> None:
        """Give a host its link back."""
        ...

    def is_link_cut(self, server: Sshd) -> bool:
        """Tell whether a host is cut off."""
        ...


@dataclass(frozen=True)
class LoopbackNetwork:
    """Hosts on `net_prefix`.1, `net_prefix`.2, ... of the loopback device, as the invoking user: nothing may be changed there."""

    folder: Path
    net_prefix: str
    permissions: tuple[Permission, ...] = ()

    def check(self) -> None:
        """Do nothing: every machine has a loopback device."""

    def subnet(self, known_addresses: Sequence[str]) -> str:
        """Return the net that the lab was told to use."""
        return self.net_prefix

    def assign_server(self, alias: str, address: str, cpus: tuple[int, ...] | None, previous: Sshd | None) -> Sshd:
        """Keep the ports that the host had, if they can be had again."""
        if previous and (previous.pid() is not None or _port_is_free(address, previous.port)):
            return Sshd(alias, address, previous.port, previous.service_port, cpus, previous.folder)
        port = _free_port(address, FIRST_SSH_PORT)
        # another lab on this address holds its SSH port all the time, but its service port during trials only
        service_port = _free_port(address, FIRST_SERVICE_PORT + port - FIRST_SSH_PORT)
        return Sshd(alias, address, port, service_port, cpus, self.folder / alias)

    def with_enter_command(self, server: Sshd) -> Sshd:
        """Return the host as it is."""
        return server

    def service_address(self, server: Sshd) -> str:
        """Return its only address."""
        return server.address

    def build(self, servers: Sequence[Sshd]) -> None:
        """Do nothing: every address of the device is there."""

    def clear(self, aliases: Sequence[str] | None = None) -> None:
        """Do nothing: nothing was made."""

    def cut_link(self, server: Sshd, seconds: float) -> None:
        """Raise UsageError."""
        raise UsageError(NO_LINKS_MESSAGE, "as root: loadbook lab up --kind netns")

    def restore_link(self, server: Sshd) -> None:
        """Raise UsageError."""
        raise UsageError(NO_LINKS_MESSAGE, "as root: loadbook lab up --kind netns")

    def is_link_cut(self, server: Sshd) -> bool:
        """Return False."""
        return False


def _port_is_free(address: str, port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, port))
        except OSError:
            return False
    return True


def _free_port(address: str, first: int) -> int:
    for port in range(first, first + 500):
        if _port_is_free(address, port):
            return port
    raise UsageError(f"no free port on {address} from {first} to {first + 500}")
