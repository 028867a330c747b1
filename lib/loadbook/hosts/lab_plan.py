"""Which hosts a lab has, and who of them gets which CPUs."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from loadbook.core.errors import UsageError
from loadbook.records.layout import check_name
from loadbook.records.manifest import read_json

DRIVER, BALANCER = "driver", "balancer"
RECORD = "lab.json"
MOST = 32
LOCK_S = 120.0
Roles = tuple[str, ...]


def hosts_by_need(known: Mapping[str, Roles], exactly: Mapping[str, int], least: Mapping[str, int]) -> dict[str, Roles]:
    """Return alias -> roles of a lab that had `known` and is to have so many hosts of a role.

    A role's hosts are called `web`, `web-2`, `web-3`, ... Those that stay keep their place and new ones come last, so
    that addresses stay. `exactly` may take hosts away, `least` only adds.
    """
    counts = {role: _count(known, role) for role in (*_roles_of(known), *least, *exactly)}
    for role, count in least.items():
        counts[role] = max(counts[role], count)
    counts |= exactly
    if counts.get(DRIVER, 0) < 1 or min(counts.values()) < 0 or sum(counts.values()) > MOST:
        said = ", ".join(f"{role}={count}" for role, count in counts.items())
        raise UsageError(f"a lab has a {DRIVER} and at most {MOST} hosts, not {said}")
    wanted = {_alias(role, k): (role,) for role, count in counts.items() for k in range(1, count + 1)}
    own = {alias: roles for alias, roles in known.items() if alias in wanted}
    return own | {check_name("host", alias): roles for alias, roles in wanted.items() if alias not in own}


def read_record(folder: Path) -> dict[str, Any]:
    """Return kind and hosts of a lab; without hosts where there is none yet."""
    path = folder / RECORD
    record: dict[str, Any] = read_json(path) if path.is_file() else {}
    if "hosts" not in record:  # as it was before there were two kinds: the hosts alone, named after their role
        hosts = {alias: {**host, "roles": [alias.partition("-")[0]]} for alias, host in record.items()}
        record = {"kind": "loopback", "hosts": hosts}
    return record


def take_lock(handle: IO[str], folder: Path) -> None:
    """Wait until nobody else changes the lab in `folder`; UsageError when that takes too long."""
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                said = f"the lab in {folder} is being changed by another command for {LOCK_S:g} s"
                raise UsageError(said, "wait for its end, or end it") from None
            time.sleep(0.1)


def lab_kind(hosts_file: Path) -> str:
    """Return the kind of the lab that a hosts file is of, "" for one of other hosts."""
    record = hosts_file.absolute().parent / RECORD
    return str(read_json(record).get("kind", "loopback")) if record.is_file() else ""


def _alias(role: str, number: int) -> str:
    return role if number == 1 else f"{role}-{number}"


def _roles_of(hosts: Mapping[str, Roles]) -> list[str]:
    """Return every role once, in the order of the hosts."""
    return list(dict.fromkeys(role for roles in hosts.values() for role in roles))


def _count(hosts: Mapping[str, Roles], role: str) -> int:
    return sum(role in roles for roles in hosts.values())


def cpu_masks(hosts: Mapping[str, Roles], least: int = 1) -> dict[str, tuple[int, ...] | None]:
    """Share the CPUs that we may use among `hosts` (alias -> roles); drivers are always apart from servers.

    With a CPU for every host each has its own; with fewer each role has its own (all `web` the same ones, `balancer`
    others); with fewer still, as on two CPUs, the drivers have one and all servers share the rest. A lab that was
    asked for many hosts thus gives each less. A machine with one CPU has no masks: driver and server then disturb
    each other, and a gate says so. Nor has one whose servers would have fewer than `least`, as a study of placement
    asks, where the machine has that many.
    """
    cpus, masks = sorted(os.sched_getaffinity(0)), _masks(hosts)
    small = any(mask and len(mask) < least for alias, mask in masks.items() if DRIVER not in hosts[alias])
    return dict.fromkeys(hosts) if small and least <= len(cpus) else masks


def _masks(hosts: Mapping[str, Roles]) -> dict[str, tuple[int, ...] | None]:
    cpus, roles = sorted(os.sched_getaffinity(0)), _roles_of(hosts)
    if len(cpus) < 2:
        return dict.fromkeys(hosts)
    if len(cpus) >= len(hosts):
        return dict(zip(hosts, _shares(cpus, len(hosts)), strict=True))
    shares = dict(zip(roles, _shares(cpus, len(roles)), strict=True)) if len(cpus) >= len(roles) else {}
    rest = dict.fromkeys(roles, tuple(cpus[1:])) | {DRIVER: (cpus[0],)}
    return {alias: (shares or rest)[DRIVER if DRIVER in mine else mine[0]] for alias, mine in hosts.items()}


def _shares(cpus: Sequence[int], parts: int) -> list[tuple[int, ...]]:
    """Cut a list of CPUs into so many neighbouring parts of nearly one size."""
    edges = [k * len(cpus) // parts for k in range(parts + 1)]
    return [tuple(cpus[edges[k] : edges[k + 1]]) for k in range(parts)]
