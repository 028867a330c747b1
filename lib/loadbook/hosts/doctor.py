"""Checks of `loadbook doctor` on every host: the login, and everything that a run needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple, cast

from loadbook.core.errors import HostError
from loadbook.core.units import format_bytes, format_duration
from loadbook.hosts.http import FORWARDING_HINT
from loadbook.hosts.inventory import HostsFile, Permission
from loadbook.hosts.jobs import DEFAULT_LOCK_FILE, parse_owners, script_command
from loadbook.hosts.remote import RemoteHost, connect

CheckStatus = Literal["ok", "doubt", "missing"]
MIN_DISK_B, GOOD_DISK_B = 100 << 20, 1 << 30
GOOD_NOFILE = 4096
GOOD_OFFSET_S = 1.0

_BASICS_SCRIPT = """
df -Pk . | while read -r device all used free rest; do echo "free $free"; done
echo "nofile $(ulimit -n)"
read -r boot </proc/sys/kernel/random/boot_id
echo "boot $boot"
for name; do echo "program:$name $(command -v "$name")"; done
"""

# prints "ok", "doubt" or "missing" and the reason for each permission; tc is tried in a temporary network namespace
_PERMISSIONS_SCRIPT = """
can() { [ -w "$1" ] && echo "$2 ok $3" || echo "$2 missing cannot write to $1"; }
can /proc/sys/net/core/somaxconn sysctl "kernel settings can be written"
if output=$(nft list tables 2>&1); then echo "nft ok packet rules can be read and written"
else echo "nft missing" $output
fi
if ! output=$(unshare -n tc qdisc add dev lo root handle 1: htb 2>&1); then echo "tc missing" $output
elif unshare -n tc qdisc add dev lo root netem delay 1ms 2>/dev/null; then echo "tc ok rates, delay and loss (netem)"
else echo "tc doubt rates only: the kernel has no netem for delay and loss"
fi
if ! command -v flock >/dev/null; then echo "system missing flock (apt install util-linux)"
elif [ "$(id -u)" = 0 ]; then echo "system ok files of its own servers can be replaced"
else echo "system doubt only servers that run as this user"
fi
while read -r device at type options rest; do
  case $type,$options, in
    cgroup,*,cpu,*) ;;
    cgroup2,*) grep -qw cpu "$at/cgroup.controllers" || continue ;;
    *) continue ;;
  esac
  can "$at/cgroup.procs" cgroup "CPU time can be limited at $at"
done </proc/mounts
"""


class RequiredProgram(NamedTuple):
    """A program that a host needs and the command that installs it; without `required`, a run works without it."""

    binary: str
    install: str
    required: bool = True


class CheckResult(NamedTuple):
    """One line in the table of `loadbook doctor`; `status`: ok, doubt or missing; `fix`: the remedy if not ok."""

    host: str
    subject: str
    status: CheckStatus
    observation: str
    fix: str = ""


BASE_PROGRAMS = (
    RequiredProgram("setsid", "apt-get install util-linux"),
    RequiredProgram("sha256sum", "apt-get install coreutils"),
    RequiredProgram("date", "apt-get install coreutils"),
    # without flock, an owner of the host's lock is recognised by its process id
    RequiredProgram("flock", "apt-get install util-linux", required=False),
)


HostCheck = Callable[[RemoteHost], CheckResult]


def check_hosts(
    path: Path,
    hosts: HostsFile,
    programs: Mapping[str, Sequence[RequiredProgram]],
    extra_checks: Mapping[str, Sequence[HostCheck]] | None = None,
) -> list[CheckResult]:
    """Log in to every host in parallel and check it; a host that cannot be used gives one result "missing".

    Parameters
    ----------
    path, hosts : the hosts file and its content.
    programs : alias -> the programs that the host's roles need.
    extra_checks : alias -> further checks of that host.
    """

    def check_host(alias: str) -> tuple[list[CheckResult], str | None]:
        subject = "login"
        try:
            host = connect(path, alias, "doctor", hosts=hosts)
            subject = "commands"
            try:
                checks, boot_id = _check_basics(host, hosts, [*BASE_PROGRAMS, *programs.get(alias, ())])
                return [*checks, *(check(host) for check in (extra_checks or {}).get(alias, ()))], boot_id
            finally:
                host.close()
        except HostError as error:
            return [CheckResult(alias, subject, "missing", error.message, error.hint or "")], None

    with ThreadPoolExecutor(max(1, len(hosts.hosts))) as pool:
        results = list(pool.map(check_host, hosts.hosts))
    boot_ids = {alias: boot_id for alias, (_, boot_id) in zip(hosts.hosts, results, strict=True) if boot_id}
    return [check for checks, _ in results for check in checks] + list(_shared_machines(hosts, boot_ids))


def _check_basics(
    host: RemoteHost, hosts: HostsFile, programs: Sequence[RequiredProgram]
) -> tuple[list[CheckResult], str | None]:
    """Return the results of the checks made on every host, and the host's boot id (None if unknown)."""
    alias, entry, checks = host.alias, hosts.hosts[host.alias], list[CheckResult]()

    def add(subject: str, ok: bool, observation: str, fix: str = "", otherwise: CheckStatus = "doubt") -> None:
        checks.append(CheckResult(alias, subject, "ok" if ok else otherwise, observation, "" if ok else fix))

    answer = host.script(_BASICS_SCRIPT, [p.binary for p in programs], timeout_s=20).text
    values = {line.partition(" ")[0]: line.partition(" ")[2] for line in answer.splitlines()}
    add("login", True, f"{host.destination}, host key trusted")
    add("CPU mask", True, ", ".join(map(str, entry.cpus)) if entry.cpus else "none")
    for program in programs:
        version = values.get(f"program:{program.binary}", "")
        status: CheckStatus = "missing" if program.required else "doubt"
        add(program.binary, bool(version), version or "not installed", program.install, status)

    offset_s = host.clock().offset_s
    observation = f"{format_duration(abs(offset_s))} {'ahead of' if offset_s > 0 else 'behind'} ours"
    add("clock", abs(offset_s) < GOOD_OFFSET_S, observation, "traces are shifted; better run NTP")

    if (free := values.get("free", "")).isdigit():
        free_bytes = int(free) * 1024
        status = "doubt" if free_bytes >= MIN_DISK_B else "missing"
        observation = f"{format_bytes(free_bytes)} free at {host.workdir}"
        add("disk", free_bytes >= GOOD_DISK_B, observation, "free some", status)
    else:
        add("disk", False, "free space unknown", "df -Pk gave no number")

    limit = values.get("nofile", "")
    is_enough = limit == "unlimited" or (limit.isdigit() and int(limit) >= GOOD_NOFILE)
    fix = "many connections need more: raise nofile in /etc/security/limits.conf"
    add("open files", is_enough, f"limit {limit}", fix)

    forwards = host.can_forward()
    observation = "allowed" if forwards else "refused by sshd, so that no page can be checked"
    add("forwarding", forwards, observation, FORWARDING_HINT, "missing")

    lock = entry.lock or DEFAULT_LOCK_FILE
    owners = parse_owners(host.script(script_command("owners", lock), timeout_s=20).stdout)
    observation = f"in use by {owners[0].description}" if owners else f"free, {lock}"
    add("lock", not owners, observation, "wait for its end: loadbook run --wait")
    return [*checks, *_check_permissions(host, entry.allow)], values.get("boot")


def _check_permissions(host: RemoteHost, permissions: Sequence[Permission]) -> Iterator[CheckResult]:
    """Yield, for each permission in the hosts file, whether the host grants it."""
    if not permissions:
        return
    answer = host.script(_PERMISSIONS_SCRIPT, timeout_s=20).text
    states = {line.partition(" ")[0]: line.split(" ", 2)[1:] for line in answer.splitlines()}
    for permission in permissions:
        state, *observation = states.get(permission, ["missing", "not found on this host"])
        doubts = {"tc": "a driver's delay is then made in userspace", "system": "log in as root there"}
        fixes = {"ok": "", "doubt": doubts.get(permission, "")}
        fix = fixes.get(state, f"log in as root there, install what is missing, or take {permission} out of `allow`")
        yield CheckResult(host.alias, f"may {permission}", cast("CheckStatus", state), " ".join(observation), fix)


def _shared_machines(hosts: HostsFile, boot_ids: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield one result for each group of aliases that are the same machine and whose CPU masks overlap."""

    def share_cpus(alias: str, other: str) -> bool:
        mask, other_mask = hosts.hosts[alias].cpus, hosts.hosts[other].cpus
        are_apart = mask and other_mask and set(mask).isdisjoint(other_mask)
        return boot_ids[alias] == boot_ids[other] and not are_apart

    groups: list[set[str]] = []
    for alias in boot_ids:
        overlapping = [group for group in groups if any(share_cpus(alias, other) for other in group)]
        groups = [group for group in groups if group not in overlapping] + [{alias}.union(*overlapping)]
    fix = "give them disjoint `cpus` if there are more"
    for group in groups:
        if len(group) > 1:
            aliases = ", ".join(alias for alias in boot_ids if alias in group)
            yield CheckResult(aliases, "machine", "doubt", "one machine, CPUs shared", fix)
