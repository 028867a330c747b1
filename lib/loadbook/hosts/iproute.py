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

CONTROL_S = 20.0
NETNS = Path("/run/netns")


def ip(*words: str, namespace: str | None = None, text: Sequence[str] = ()) -> bytes:
    """Run iproute2's ip, with `text` as its input; HostError has its own words."""
    where = ("-n", namespace) if namespace else ()
    data = "".join(f"{line}\n" for line in text).encode()
    done = subprocess.run(["ip", *where, *words], input=data, capture_output=True, timeout=CONTROL_S, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        shown = "; ".join(text) or " ".join(words)
        raise HostError("lab", f"ip {' '.join(where)} {shown}: {said}", "loadbook lab down, then try again")
    return done.stdout


def query(*words: str, namespace: str | None = None) -> list[dict[str, Any]]:
    """Return what ip tells as JSON; nothing where it fails, which it does for what is not there."""
    try:
        return [entry for entry in json.loads(ip("-j", *words, namespace=namespace) or b"[]") if entry]
    except HostError:
        return []


def namespaces() -> list[str]:
    """Return the names of all network namespaces that have one."""
    return [path.name for path in NETNS.iterdir()] if NETNS.is_dir() else []


def addresses(interface: str, namespace: str | None = None) -> list[str]:
    """Return the IPv4 addresses of an interface; none where there is no such interface or namespace."""
    if namespace and namespace not in namespaces():
        return []
    found = query("-4", "addr", "show", "dev", interface, namespace=namespace)
    return [info["local"] for entry in found for info in entry["addr_info"]]


def routed() -> Iterator[ipaddress.IPv4Network]:
    """Yield every net that has a route here, but not the way to everywhere."""
    for route in query("-4", "route", "show", "table", "all"):
        with suppress(ValueError):  # "default"
            net = ipaddress.IPv4Network(route["dst"])
            if net.prefixlen:
                yield net


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
