"""The ground of the namespace lab: every host in a network namespace of its own, on the bridge of a switch namespace.

Needs root. Everything is found by the lab's prefix (a digest of its folder), so that two labs do not meet and a lab
that crashed is cleared like any other. The net is one of 198.18.0.0/15, which RFC 2544 set aside for benchmarks; our
own end of it is the only thing outside of the namespaces. Processes, files and clock are the machine's.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from loadbook.core.errors import HostError, UsageError
from loadbook.hosts.inventory import PERMITS, Permit
from loadbook.hosts.iproute import (
    CONTROL_S,
    NETNS,
    addresses,
    command_line,
    ip,
    namespaces,
    processes_in,
    query,
    routed,
)
from loadbook.hosts.sshd import Sshd, end_processes

POOL = ipaddress.IPv4Network("198.18.0.0/15")
SSH_PORT, SERVICE_PORT = 22, 80
SERVICES, OURS = 100, 254
BRIDGE, INTERFACE = "br0", "eth0"
MAX_CUT_S = 600


@dataclass(frozen=True)
class Namespaces:
    """The namespaces of the lab in `folder`; the hosts `fronts` serve at an address of their own (`serves_at`)."""

    folder: Path
    fronts: frozenset[str] = frozenset()
    may: tuple[Permit, ...] = PERMITS

    @cached_property
    def prefix(self) -> str:
        """Return what the names of this lab's namespaces begin with, and the name of our own interface."""
        return "lb" + hashlib.sha256(os.fsencode(self.folder.resolve())).hexdigest()[:8]

    def check(self) -> None:
        """Raise UsageError for an ordinary user, and where ip or namespaces are missing."""
        instead = "the loopback lab needs no root: loadbook lab up --kind loopback"
        if sys.platform != "linux" or os.geteuid() != 0:
            raise UsageError("the namespace lab needs root on Linux", instead)
        missing = [name for name in ("ip", "nsenter", "unshare", "mount") if shutil.which(name) is None]
        if missing:
            raise UsageError(f"{', '.join(missing)} not installed here: apt install iproute2 util-linux", instead)

    def net(self, known: Sequence[str]) -> str:
        """Return the net that the lab has, else the first one from a place of its own that no route uses."""
        if known:
            return known[0].rpartition(".")[0]
        nets = list(POOL.subnets(new_prefix=24))
        first = int(self.prefix[2:], 16)
        taken = list(routed())
        for net in (nets[(first + k) % len(nets)] for k in range(len(nets))):
            if not any(net.overlaps(other) for other in taken):
                return str(net.network_address).rpartition(".")[0]
        raise UsageError(f"every net of {POOL} is routed here: none is left for the lab", "ip route")

    def place(self, alias: str, address: str, cpus: tuple[int, ...] | None, old: Sshd | None) -> Sshd:
        """Return the host: in a namespace of its own all ports are free."""
        return self.entered(Sshd(alias, address, SSH_PORT, SERVICE_PORT, cpus, self.folder / alias))

    def entered(self, server: Sshd) -> Sshd:
        """Return a host with the commands that lead into its namespaces."""
        script = str(files("loadbook.hosts").joinpath("netns_enter.sh"))
        outer = ("nsenter", f"--net={NETNS / self._name(server.alias)}", "unshare", "--mount", "--uts", "/bin/sh")
        return replace(server, enter=(*outer, script, server.alias, str(self.folder / server.alias), str(self._hosts)))

    def serves_at(self, server: Sshd) -> str:
        """Return where a host's services are: in front of others at a second address.

        Servers behind can then take that address for theirs, too, and still be reached from the first one.
        """
        if server.alias not in self.fronts:
            return server.address
        net, _, number = server.address.rpartition(".")
        return f"{net}.{SERVICES + int(number)}"

    @property
    def _hosts(self) -> Path:
        return self.folder / "etc-hosts"

    @property
    def _switch(self) -> str:
        return f"{self.prefix}-switch"

    def _name(self, alias: str) -> str:
        return f"{self.prefix}-host-{alias}"

    def build(self, servers: Sequence[Sshd]) -> None:
        """Make the switch and every namespace that is not whole; those that are whole keep running."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._hosts.touch()
        # in place: the hosts have this very file mounted
        lines = ["127.0.0.1\tlocalhost", *(f"{self.serves_at(s)}\t{s.alias}" for s in servers)]
        self._hosts.write_text("".join(f"{line}\n" for line in lines))
        ports = self._ports()
        if ports is None or not _has(servers[0].address.rpartition(".")[0], addresses(self.prefix)):
            self.clear()
            self._add_switch(servers[0].address.rpartition(".")[0])
            ports = {}
        for server in servers:
            there = addresses(INTERFACE, self._name(server.alias))
            if _port(server) not in ports or not {server.address, self.serves_at(server)} <= set(there):
                self.clear([server.alias])
                self._add_host(server)

    def _ports(self) -> dict[str, bool] | None:
        """Return the switch's ports and whether each is up; None when there is no switch."""
        if self._switch not in namespaces() or not (links := query("link", "show", namespace=self._switch)):
            return None
        if BRIDGE not in {link["ifname"] for link in links}:
            return None
        return {link["ifname"]: "UP" in link["flags"] for link in links if link.get("master") == BRIDGE}

    def _add_switch(self, net: str) -> None:
        """Make the switch, and our own end of the net."""
        ip("netns", "add", self._switch)
        batch = [
            f"link add {BRIDGE} type bridge forward_delay 0 mcast_snooping 0",
            f"link set {BRIDGE} up",
            f"link add ours type veth peer name {self.prefix} netns {os.getpid()}",
            f"link set ours master {BRIDGE} up",
        ]
        ip("-batch", "-", namespace=self._switch, text=batch)
        ip("-batch", "-", text=[f"addr add {net}.{OURS}/24 dev {self.prefix}", f"link set {self.prefix} up"])

    def _add_host(self, server: Sshd) -> None:
        name = self._name(server.alias)
        ip("netns", "add", name)
        # before the link: no chatter of IPv6 in the counters
        quiet = "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"
        command = ["nsenter", f"--net={NETNS / name}", "sh", "-c", f"[ ! -d /proc/sys/net/ipv6 ] || {quiet}"]
        subprocess.run(command, check=False, timeout=CONTROL_S, stdin=subprocess.DEVNULL)
        with suppress(HostError):  # the other end may be in a namespace that lost its name
            ip("link", "del", _port(server), namespace=self._switch)
        near = f"{INTERFACE} address {_mac(server)} netns {name}"
        ip(*f"link add {near} type veth peer name {_port(server)} netns {self._switch}".split())
        ip("link", "set", _port(server), "master", BRIDGE, "up", namespace=self._switch)
        own = [
            f"addr add {address}/24 dev {INTERFACE}"
            for address in dict.fromkeys((server.address, self.serves_at(server)))
        ]
        batch = ["link set lo up", f"link set {INTERFACE} up", *own]
        ip("-batch", "-", namespace=name, text=batch)

    def clear(self, aliases: Sequence[str] | None = None) -> None:
        """End the processes in these hosts' namespaces (None: in all of this lab) and remove the namespaces."""
        ours = [name for name in namespaces() if name.startswith(f"{self.prefix}-")]
        wanted = ours if aliases is None else [self._name(alias) for alias in aliases]
        for name in set(wanted) & set(ours):
            end_processes(list(processes_in(name)))
            ip("netns", "del", name)
        if aliases is None and Path(f"/sys/class/net/{self.prefix}").exists():
            with suppress(HostError):  # it goes by itself as soon as the kernel has taken the switch down
                ip("link", "del", self.prefix)

    def cut(self, server: Sshd, seconds: float) -> None:
        """Take the switch's port down; a process in the switch brings it up again after so many seconds."""
        if not 0 < seconds <= MAX_CUT_S:
            raise UsageError(f"a link is cut for up to {MAX_CUT_S} s, not {seconds:g} s")
        port = self._port_of(server)
        self._forget_timer(port)
        ip("link", "set", port, "down", namespace=self._switch)
        command = ["nsenter", f"--net={NETNS / self._switch}", "sh", "-c", 'sleep "$2"; exec ip link set "$1" up']
        subprocess.Popen(
            [*command, "loadbook-join", port, f"{seconds:g}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def join(self, server: Sshd) -> None:
        """Bring the switch's port up."""
        port = self._port_of(server)
        self._forget_timer(port)
        ip("link", "set", port, "up", namespace=self._switch)

    def is_cut(self, server: Sshd) -> bool:
        """Tell whether the switch's port is down."""
        return (self._ports() or {}).get(_port(server)) is False

    def _port_of(self, server: Sshd) -> str:
        if _port(server) not in (self._ports() or {}):
            raise UsageError(f"host {server.alias} is not up", "loadbook lab up")
        return _port(server)

    def _forget_timer(self, port: str) -> None:
        mark = f"loadbook-join\0{port}\0".encode()
        end_processes([pid for pid in processes_in(self._switch) if mark in command_line(pid)])


def _mac(server: Sshd) -> str:
    """Return a hardware address made of the IP address: the others still know a host that was made again."""
    return ":".join(f"{byte:02x}" for byte in (2, 0, *ipaddress.IPv4Address(server.address).packed))


def _port(server: Sshd) -> str:
    return f"port{server.address.rpartition('.')[2]}"


def _has(net: str, addresses: Sequence[str]) -> bool:
    return any(address.rpartition(".")[0] == net for address in addresses)
