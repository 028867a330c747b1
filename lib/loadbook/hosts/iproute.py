"""iproute2's ip: the one place that runs it here, and what it tells about namespaces, addresses and routes."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from loadbook.core.errors import HostError

IP_TIMEOUT_S = 20.0
NETNS_FOLDER = Path("/run/netns")


def ip(*args: str, namespace: str | None = None, batch: Sequence[str] = ()) -> bytes:
    """Run iproute2's ip, with `batch` as its input; HostError has its own words."""
    namespace_args = ("-n", namespace) if namespace else ()
    stdin = "".join(f"{line}\n" for line in batch).encode()
    done = subprocess.run(["ip", *namespace_args, *args], input=stdin, capture_output=True, timeout=IP_TIMEOUT_S, check=False)
    if done.returncode:
        error = done.stderr.decode(errors="replace").strip()
        command = "; ".join(batch) or " ".join(args)
        raise HostError("lab", f"ip {' '.join(namespace_args)} {command}: {error}", "loadbook lab down, then try again")
    return done.stdout


def query_ip(*args: str, namespace: str | None = None) -> list[dict[str, Any]]:
    """Return what ip tells as JSON; nothing where it fails, which it does for what is not there."""
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


def routed_networks() -> Iterator[ipaddress.IPv4Network]:
    """Yield every net that has a route here, but not the way to everywhere."""
    for route in query_ip("-4", "route", "show", "table", "all"):
        with suppress(ValueError):  # "default"
            network = ipaddress.IPv4Network(route["dst"])
            if network.prefixlen:
                yield network


def processes_in(namespace: str) -> Iterator[int]:
    """Yield the ids of the processes in a network namespace."""
    for word in ip("netns", "pids", namespace).split():
        yield int(word)


def command_line(pid: int) -> bytes:
    """Return a process's arguments, each with a NUL behind it; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
