"""The lab in network namespaces: every host has its own namespace, connected by a bridge in another namespace.

Needs root. All names begin with the lab's prefix (a digest of its folder), so that two labs do not collide and a
crashed lab can be removed. Addresses are from 198.18.0.0/15, which RFC 2544 reserves for benchmarks; the
controller's end of the network is the only interface outside the namespaces. Processes, files and clock are shared
with the machine.
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
    """Run iproute2's `ip` with `args` and return its output; HostError contains its error message.

    `namespace` is the namespace to run it in (None: this process's); the lines of `batch` are its input.
    """
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
    """Return the JSON output of ip; empty if ip fails, as it does for objects that do not exist."""
    try:
        return [entry for entry in json.loads(ip("-j", *args, namespace=namespace) or b"[]") if entry]
    except HostError:
        return []


def namespace_names() -> list[str]:
    """Return the names of all named network namespaces of this machine."""
    return [path.name for path in NETNS_FOLDER.iterdir()] if NETNS_FOLDER.is_dir() else []


def interface_addresses(interface: str, namespace: str | None = None) -> list[str]:
    """Return the IPv4 addresses of an interface; empty if the interface or namespace does not exist."""
    if namespace and namespace not in namespace_names():
        return []
    links = query_ip("-4", "addr", "show", "dev", interface, namespace=namespace)
    return [info["local"] for entry in links for info in entry["addr_info"]]


def processes_in(namespace: str) -> list[int]:
    """Return the ids of the processes in a network namespace."""
    return list(map(int, ip("netns", "pids", namespace).split()))


def command_line(pid: int) -> bytes:
    """Return a process's arguments, each terminated by NUL; empty if the process has ended."""
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
    """Network namespaces of the lab in `folder`; hosts in `balancers` have a second IP address for their service."""

    permissions: tuple[Permission, ...] = PERMISSIONS
    balancers: frozenset[str] = frozenset()

    @cached_property
    def prefix(self) -> str:
        """Return the name prefix of this lab's namespaces; the controller's interface has it as its name."""
        return "lb" + hashlib.sha256(os.fsencode(self.folder.resolve())).hexdigest()[:8]

    def check(self) -> None:
        """Raise UsageError unless the user is root on Linux and the programs ip, nsenter, unshare, mount exist."""
        hint = "the loopback lab needs no root: loadbook lab up --kind loopback"
        if sys.platform != "linux" or os.geteuid() != 0:
            raise UsageError("the namespace lab needs root on Linux", hint)
        missing = [name for name in ("ip", "nsenter", "unshare", "mount") if shutil.which(name) is None]
        if missing:
            raise UsageError(f"{', '.join(missing)} not installed here: apt install iproute2 util-linux", hint)

    def subnet(self, recorded: Sequence[Sshd]) -> str:
        """Return the lab's network as text, such as "198.18.5": the recorded one, or a free one if another has it.

        A network is another's if it is routed here but not by this lab's interface, as after a project was copied.
        """
        known = recorded[0].address.rpartition(".")[0] if recorded else ""
        if known and known in {address.rpartition(".")[0] for address in interface_addresses(self.prefix)}:
            return known
        nets = list(ADDRESS_POOL.subnets(new_prefix=24))
        start = int(self.prefix[2:], 16)
        routed_nets = []
        for route in query_ip("-4", "route", "show", "table", "all"):
            with suppress(ValueError):  # "default"
                routed_nets.append(ipaddress.IPv4Network(route["dst"]))
        candidates = [ipaddress.IPv4Network(f"{known}.0/24")] if known else []
        for candidate in (*candidates, *(nets[(start + k) % len(nets)] for k in range(len(nets)))):
            # the default route (prefix length 0) overlaps every network
            if not any(other.prefixlen and candidate.overlaps(other) for other in routed_nets):
                return str(candidate.network_address).rpartition(".")[0]
        raise UsageError(f"every net of {ADDRESS_POOL} is routed here: none is left for the lab", "ip route")

    def assign_server(self, alias: str, address: str, cpus: tuple[int, ...] | None, previous: Sshd | None) -> Sshd:
        """Return the host with the standard ports, which are always free in a namespace of its own."""
        return self.with_enter_command(Sshd(alias, address, SSH_PORT, SERVICE_PORT, cpus, self.folder / alias))

    def with_enter_command(self, server: Sshd) -> Sshd:
        """Return a host with `enter_command` set to the command that runs another one in its namespaces."""
        script = str(files("loadbook.hosts").joinpath("netns_enter.sh"))
        outer = (*_enter_network(self._namespace_of(server.alias)), "unshare", "--mount", "--uts", "/bin/sh", script)
        folder = str(self.folder / server.alias)
        return replace(server, enter_command=(*outer, server.alias, folder, str(self._etc_hosts)))

    def service_address(self, server: Sshd) -> str:
        """Return the address of a host's services, which for a balancer is a second address of the host.

        Servers behind it can then accept packets for that address, too, and still be reached from the first one.
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
        # written in place, because this file is mounted as /etc/hosts in the hosts' namespaces
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
        """Return the bridge's port names, and whether each is up; None if there is no bridge."""
        if self._switch not in namespace_names() or not (links := query_ip("link", "show", namespace=self._switch)):
            return None
        if BRIDGE not in {link["ifname"] for link in links}:
            return None
        return {link["ifname"]: "UP" in link["flags"] for link in links if link.get("master") == BRIDGE}

    def _add_switch(self, net: str) -> None:
        """Create the namespace with the bridge, and the controller's interface."""
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
        # before the link is created, so that IPv6 neighbour discovery does not appear in the traffic counters
        disable_ipv6 = "[ ! -d /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"
        command = [*_enter_network(name), "sh", "-c", disable_ipv6]
        subprocess.run(command, check=False, timeout=IP_TIMEOUT_S, stdin=subprocess.DEVNULL)
        with suppress(HostError):  # an old link may be left, with its other end in a namespace that has no name now
            ip("link", "del", _port_name(server), namespace=self._switch)
        # MAC address derived from the IP address, so that ARP caches stay right when a host is created again
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
            with suppress(HostError):  # the kernel removes it by itself once the bridge's namespace is gone
                ip("link", "del", self.prefix)

    def cut_link(self, server: Sshd, seconds: float) -> None:
        """Disconnect a host; its link comes back after `seconds` (at most MAX_CUT_S), even if the controller dies."""
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
        """Reconnect a host by setting its bridge port up."""
        port = self._existing_port(server)
        self._cancel_restore(port)
        ip("link", "set", port, "up", namespace=self._switch)

    def is_link_cut(self, server: Sshd) -> bool:
        """Return whether the host's bridge port is down."""
        return (self._port_states() or {}).get(_port_name(server)) is False

    def _existing_port(self, server: Sshd) -> str:
        if _port_name(server) not in (self._port_states() or {}):
            raise UsageError(f"host {server.alias} is not up", "loadbook lab up")
        return _port_name(server)

    def _cancel_restore(self, port: str) -> None:
        marker = f"loadbook-join\0{port}\0".encode()
        end_processes([pid for pid in processes_in(self._switch) if marker in command_line(pid)])


def _enter_network(namespace: str) -> tuple[str, ...]:
    """Return the arguments that, put before a command, run it in a network namespace."""
    return ("nsenter", f"--net={NETNS_FOLDER / namespace}")


def _port_name(server: Sshd) -> str:
    return f"port{server.address.rpartition('.')[2]}"
