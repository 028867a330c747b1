"""Network namespaces of the lab: every host in a namespace of its own, on the bridge of a switch namespace.

Needs root. All names begin with the lab's prefix (a digest of its folder), so that two labs do not collide and a
crashed lab can be cleared. The network is one of 198.18.0.0/15, which RFC 2544 reserves for benchmarks; the
controller's end of it is the only interface outside the namespaces. Processes, files and clock are shared with the
machine.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
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
from typing import Any

from loadbook.core.errors import HostError, UsageError
from loadbook.hosts.inventory import PERMISSIONS, Permission
from loadbook.hosts.sshd import LabNetwork, Sshd, end_processes

IP_TIMEOUT_S = 20.0
NETNS_FOLDER = Path("/run/netns")


def ip(*args: str, namespace: str | None = None, batch: Sequence[str] = ()) -> bytes:
    """Run iproute2's ip, with `batch` as its input; HostError has its own words."""
    namespace_args = ("-n", namespace) if namespace else ()
    stdin = "".join(f"{line}\n" for line in batch).encode()
    done = subprocess.run(
        ["ip", *namespace_args, *args], input=stdin, capture_output=True, timeout=IP_TIMEOUT_S, check=False
    )
    if done.returncode:
        error = done.stderr.decode(errors="replace").strip()
        command = "; ".join(batch) or " ".join(args)
        raise HostError("lab", f"ip {' '.join(namespace_args)} {command}: {error}", "loadbook lab down, then try again")
    return done.stdout


def query_ip(*args: str, namespace: str | None = None) -> list[dict[str, Any]]:
    """Return the JSON output of ip; nothing if it fails, which it does for missing objects."""
    try:
        return [entry for entry in json.loads(ip("-j", *args, namespace=namespace) or b"[]") if entry]
    except HostError:
        return []


def namespace_names() -> list[str]:
    """Return the names of all network namespaces that have one."""
    return [path.name for path in NETNS_FOLDER.iterdir()] if NETNS_FOLDER.is_dir() else []


def interface_addresses(interface: str, namespace: str | None = None) -> list[str]:
    """Return the IPv4 addresses of an interface; none where there is no such interface or namespace."""
    if namespace and namespace not in namespace_names():
        return []
    links = query_ip("-4", "addr", "show", "dev", interface, namespace=namespace)
    return [info["local"] for entry in links for info in entry["addr_info"]]


def processes_in(namespace: str) -> list[int]:
    """Return the ids of the processes in a network namespace."""
    return list(map(int, ip("netns", "pids", namespace).split()))


def command_line(pid: int) -> bytes:
    """Return a process's arguments, each with a NUL behind it; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


ADDRESS_POOL = ipaddress.IPv4Network("198.18.0.0/15")
SSH_PORT, SERVICE_PORT = 22, 80
SERVICE_ADDRESS_OFFSET, CONTROLLER_NUMBER = 100, 254
BRIDGE, INTERFACE = "br0", "eth0"
MAX_CUT_S = 600


@dataclass(frozen=True)
class NamespaceNetwork(LabNetwork):
    """Network namespaces of the lab in `folder`; hosts in `balancers` serve at a `service_address` of their own."""

    permissions: tuple[Permission, ...] = PERMISSIONS
    balancers: frozenset[str] = frozenset()

    @cached_property
    def prefix(self) -> str:
        """Return the prefix of this lab's namespaces, which is also the name of the controller's interface."""
        return "lb" + hashlib.sha256(os.fsencode(self.folder.resolve())).hexdigest()[:8]

    def check(self) -> None:
        """Raise UsageError for an ordinary user, and where ip or namespaces are missing."""
        hint = "the loopback lab needs no root: loadbook lab up --kind loopback"
        if sys.platform != "linux" or os.geteuid() != 0:
            raise UsageError("the namespace lab needs root on Linux", hint)
        missing = [name for name in ("ip", "nsenter", "unshare", "mount") if shutil.which(name) is None]
        if missing:
            raise UsageError(f"{', '.join(missing)} not installed here: apt install iproute2 util-linux", hint)

    def subnet(self, known_addresses: Sequence[str]) -> str:
        """Return the net that the lab has, else the first one from a place of its own that no route uses."""
        if known_addresses:
            return known_addresses[0].rpartition(".")[0]
        nets = list(ADDRESS_POOL.subnets(new_prefix=24))
        start = int(self.prefix[2:], 16)
        routed_nets = []
        for route in query_ip("-4", "route", "show", "table", "all"):
            with suppress(ValueError):  # "default"
                routed_nets.append(ipaddress.IPv4Network(route["dst"]))
        for candidate in (nets[(start + k) % len(nets)] for k in range(len(nets))):
            # of length 0: the way to everywhere
            if not any(other.prefixlen and candidate.overlaps(other) for other in routed_nets):
                return str(candidate.network_address).rpartition(".")[0]
        raise UsageError(f"every net of {ADDRESS_POOL} is routed here: none is left for the lab", "ip route")

    def assign_server(self, alias: str, address: str, cpus: tuple[int, ...] | None, previous: Sshd | None) -> Sshd:
        """Return the host: in a namespace of its own all ports are free."""
        return self.with_enter_command(Sshd(alias, address, SSH_PORT, SERVICE_PORT, cpus, self.folder / alias))

    def with_enter_command(self, server: Sshd) -> Sshd:
        """Return a host with the commands that lead into its namespaces."""
        script = str(files("loadbook.hosts").joinpath("netns_enter.sh"))
        outer = (*_enter_network(self._namespace_of(server.alias)), "unshare", "--mount", "--uts", "/bin/sh", script)
        folder = str(self.folder / server.alias)
        return replace(server, enter_command=(*outer, server.alias, folder, str(self._etc_hosts)))

    def service_address(self, server: Sshd) -> str:
        """Return where a host's services are: in front of others at a second address.

        Servers behind can then take that address for theirs, too, and still be reached from the first one.
        """
        if server.alias not in self.balancers:
            return server.address
        net, _, number = server.address.rpartition(".")
        return f"{net}.{SERVICE_ADDRESS_OFFSET + int(number)}"

    @property
    def _etc_hosts(self) -> Path:
        return self.folder / "etc-hosts"

    @property
    def _switch(self) -> str:
        return f"{self.prefix}-switch"

    def _namespace_of(self, alias: str) -> str:
        return f"{self.prefix}-host-{alias}"

    def build(self, servers: Sequence[Sshd]) -> None:
        """Create the namespaces, links and addresses that do not exist yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._etc_hosts.touch()
        # in place: the hosts have this very file mounted
        lines = ["127.0.0.1\tlocalhost", *(f"{self.service_address(s)}\t{s.alias}" for s in servers)]
        self._etc_hosts.write_text("".join(f"{line}\n" for line in lines))
        ports = self._port_states()
        net = servers[0].address.rpartition(".")[0]
        if ports is None or net not in {a.rpartition(".")[0] for a in interface_addresses(self.prefix)}:
            self.clear()
            self._add_switch(net)
            ports = {}
        for server in servers:
            present = interface_addresses(INTERFACE, self._namespace_of(server.alias))
            if _port_name(server) not in ports or not {server.address, self.service_address(server)} <= set(present):
                self.clear([server.alias])
                self._add_host(server)

    def _port_states(self) -> dict[str, bool] | None:
        """Return the switch's ports and whether each is up; None when there is no switch."""
        if self._switch not in namespace_names() or not (links := query_ip("link", "show", namespace=self._switch)):
            return None
        if BRIDGE not in {link["ifname"] for link in links}:
            return None
        return {link["ifname"]: "UP" in link["flags"] for link in links if link.get("master") == BRIDGE}

    def _add_switch(self, net: str) -> None:
        """Create the switch namespace with its bridge, and the controller's end of the network."""
        ip("netns", "add", self._switch)
        batch = [
            f"link add {BRIDGE} type bridge forward_delay 0 mcast_snooping 0",
            f"link set {BRIDGE} up",
            f"link add ours type veth peer name {self.prefix} netns {os.getpid()}",
            f"link set ours master {BRIDGE} up",
        ]
        ip("-batch", "-", namespace=self._switch, batch=batch)
        own_end = [f"addr add {net}.{CONTROLLER_NUMBER}/24 dev {self.prefix}", f"link set {self.prefix} up"]
        ip("-batch", "-", batch=own_end)

    def _add_host(self, server: Sshd) -> None:
        name = self._namespace_of(server.alias)
        ip("netns", "add", name)
        # before the link: no chatter of IPv6 in the counters
        disable_ipv6 = "[ ! -d /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"
        command = [*_enter_network(name), "sh", "-c", disable_ipv6]
        subprocess.run(command, check=False, timeout=IP_TIMEOUT_S, stdin=subprocess.DEVNULL)
        with suppress(HostError):  # the other end may be in a namespace that lost its name
            ip("link", "del", _port_name(server), namespace=self._switch)
        # a hardware address made of the IP address: the others still know a host that was made again
        mac_address = ":".join(f"{byte:02x}" for byte in (2, 0, *ipaddress.IPv4Address(server.address).packed))
        link = f"{INTERFACE} address {mac_address} netns {name}"
        ip(*f"link add {link} type veth peer name {_port_name(server)} netns {self._switch}".split())
        ip("link", "set", _port_name(server), "master", BRIDGE, "up", namespace=self._switch)
        batch = ["link set lo up", f"link set {INTERFACE} up"]
        addresses = dict.fromkeys((server.address, self.service_address(server)))
        batch += [f"addr add {address}/24 dev {INTERFACE}" for address in addresses]
        ip("-batch", "-", namespace=name, batch=batch)

    def clear(self, aliases: Sequence[str] | None = None) -> None:
        """Remove the namespaces of these hosts; None: all namespaces of this lab."""
        existing = [name for name in namespace_names() if name.startswith(f"{self.prefix}-")]
        names = existing if aliases is None else [self._namespace_of(alias) for alias in aliases]
        for name in set(names) & set(existing):
            end_processes(list(processes_in(name)))
            ip("netns", "del", name)
        if aliases is None and Path(f"/sys/class/net/{self.prefix}").exists():
            with suppress(HostError):  # it goes by itself as soon as the kernel has taken the switch down
                ip("link", "del", self.prefix)

    def cut_link(self, server: Sshd, seconds: float) -> None:
        """Cut a host off; its link returns after so many seconds, also if the controller dies."""
        if not 0 < seconds <= MAX_CUT_S:
            raise UsageError(f"a link is cut for up to {MAX_CUT_S} s, not {seconds:g} s")
        port = self._existing_port(server)
        self._cancel_restore(port)
        ip("link", "set", port, "down", namespace=self._switch)
        wait_and_restore = 'sleep "$2"; exec ip link set "$1" up'
        command = [*_enter_network(self._switch), "sh", "-c", wait_and_restore, "loadbook-join", port, f"{seconds:g}"]
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def restore_link(self, server: Sshd) -> None:
        """Bring the switch's port up."""
        port = self._existing_port(server)
        self._cancel_restore(port)
        ip("link", "set", port, "up", namespace=self._switch)

    def is_link_cut(self, server: Sshd) -> bool:
        """Tell whether the switch's port is down."""
        return (self._port_states() or {}).get(_port_name(server)) is False

    def _existing_port(self, server: Sshd) -> str:
        if _port_name(server) not in (self._port_states() or {}):
            raise UsageError(f"host {server.alias} is not up", "loadbook lab up")
        return _port_name(server)

    def _cancel_restore(self, port: str) -> None:
        marker = f"loadbook-join\0{port}\0".encode()
        end_processes([pid for pid in processes_in(self._switch) if marker in command_line(pid)])


def _enter_network(namespace: str) -> tuple[str, ...]:
    """Return the words that run a command in a network namespace."""
    return ("nsenter", f"--net={NETNS_FOLDER / namespace}")


def _port_name(server: Sshd) -> str:
    return f"port{server.address.rpartition('.')[2]}"
