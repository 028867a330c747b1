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
RECORD_FILE = "lab.json"
MAX_HOSTS = 32
LAB_LOCK_TIMEOUT_S = 120.0
Roles = tuple[str, ...]


def plan_hosts(current: Mapping[str, Roles], exact_counts: Mapping[str, int], min_counts: Mapping[str, int]) -> dict[str, Roles]:
    """Return alias -> roles of a lab that had `current` and is to have so many hosts of a role.

    A role's hosts are called `web`, `web-2`, `web-3`, ... Those that stay keep their place and new ones come last, so
    that addresses stay. `exact_counts` may take hosts away, `min_counts` only adds.
    """
    counts = {role: _count_role(current, role) for role in (*_roles_of(current), *min_counts, *exact_counts)}
    for role, count in min_counts.items():
        counts[role] = max(counts[role], count)
    counts |= exact_counts
    if counts.get(DRIVER, 0) < 1 or min(counts.values()) < 0 or sum(counts.values()) > MAX_HOSTS:
        requested = ", ".join(f"{role}={count}" for role, count in counts.items())
        raise UsageError(f"a lab has a {DRIVER} and at most {MAX_HOSTS} hosts, not {requested}")
    planned_hosts = {_numbered_alias(role, k): (role,) for role, count in counts.items() for k in range(1, count + 1)}
    kept_hosts = {alias: roles for alias, roles in current.items() if alias in planned_hosts}
    return kept_hosts | {check_name("host", alias): roles for alias, roles in planned_hosts.items() if alias not in kept_hosts}


def read_lab_record(folder: Path) -> dict[str, Any]:
    """Return kind and hosts of a lab; without hosts where there is none yet."""
    path = folder / RECORD_FILE
    record: dict[str, Any] = read_json(path) if path.is_file() else {}
    if "hosts" not in record:  # as it was before there were two kinds: the hosts alone, named after their role
        hosts = {alias: {**host, "roles": [alias.partition("-")[0]]} for alias, host in record.items()}
        record = {"kind": "loopback", "hosts": hosts}
    return record


def acquire_lab_lock(handle: IO[str], folder: Path) -> None:
    """Wait until nobody else changes the lab in `folder`; UsageError when that takes too long."""
    deadline = time.monotonic() + LAB_LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                message = f"the lab in {folder} is being changed by another command for {LAB_LOCK_TIMEOUT_S:g} s"
                raise UsageError(message, "wait for its end, or end it") from None
            time.sleep(0.1)


def lab_kind(hosts_file: Path) -> str:
    """Return the kind of the lab that a hosts file is of, "" for one of other hosts."""
    record = hosts_file.absolute().parent / RECORD_FILE
    return str(read_json(record).get("kind", "loopback")) if record.is_file() else ""


def _numbered_alias(role: str, number: int) -> str:
    return role if number == 1 else f"{role}-{number}"


def _roles_of(hosts: Mapping[str, Roles]) -> list[str]:
    """Return every role once, in the order of the hosts."""
    return list(dict.fromkeys(role for roles in hosts.values() for role in roles))


def _count_role(hosts: Mapping[str, Roles], role: str) -> int:
    return sum(role in roles for roles in hosts.values())


def cpu_masks(hosts: Mapping[str, Roles], min_server_cpus: int = 1) -> dict[str, tuple[int, ...] | None]:
    """Share the CPUs that we may use among `hosts` (alias -> roles); drivers are always apart from servers.

    With a CPU for every host each has its own; with fewer each role has its own (all `web` the same ones, `balancer`
    others); with fewer still, as on two CPUs, the drivers have one and all servers share the rest. A lab that was
    asked for many hosts thus gives each less. A machine with one CPU has no masks: driver and server then disturb
    each other, and a gate says so. Nor has one whose servers would have fewer than `min_server_cpus`, as a study of placement
    asks, where the machine has that many.
    """
    cpus, masks = sorted(os.sched_getaffinity(0)), _distribute_cpus(hosts)
    too_few = any(mask and len(mask) < min_server_cpus for alias, mask in masks.items() if DRIVER not in hosts[alias])
    return dict.fromkeys(hosts) if too_few and min_server_cpus <= len(cpus) else masks


def _distribute_cpus(hosts: Mapping[str, Roles]) -> dict[str, tuple[int, ...] | None]:
    cpus, roles = sorted(os.sched_getaffinity(0)), _roles_of(hosts)
    if len(cpus) < 2:
        return dict.fromkeys(hosts)
    if len(cpus) >= len(hosts):
        return dict(zip(hosts, _split_cpus(cpus, len(hosts)), strict=True))
    shares = dict(zip(roles, _split_cpus(cpus, len(roles)), strict=True)) if len(cpus) >= len(roles) else {}
    rest = dict.fromkeys(roles, tuple(cpus[1:])) | {DRIVER: (cpus[0],)}
    return {alias: (shares or rest)[DRIVER if DRIVER in host_roles else host_roles[0]] for alias, host_roles in hosts.items()}


def _split_cpus(cpus: Sequence[int], parts: int) -> list[tuple[int, ...]]:
    """Cut a list of CPUs into so many neighbouring parts of nearly one size."""
    edges = [k * len(cpus) // parts for k in range(parts + 1)]
    return [tuple(cpus[edges[k] : edges[k + 1]]) for k in range(parts)]
