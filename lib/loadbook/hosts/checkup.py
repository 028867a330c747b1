"""What `loadbook doctor` asks of every host: the way in, and everything that a run needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, cast

from loadbook.core.errors import HostError
from loadbook.core.units import seconds, size
from loadbook.hosts import connect
from loadbook.hosts.host_lock import LOCK, ask_text, owners_in
from loadbook.hosts.inventory import HostsFile, Permit
from loadbook.hosts.jobs import launcher
from loadbook.hosts.remote import RemoteHost

State = Literal["ok", "doubt", "missing"]
MIN_DISK_B, GOOD_DISK_B = 100 << 20, 1 << 30
GOOD_NOFILE = 4096
GOOD_OFFSET_S = 1.0

_LOOK = """
df -Pk . | while read -r device all used free rest; do echo "free $free"; done
echo "nofile $(ulimit -n)"
read -r boot </proc/sys/kernel/random/boot_id
echo "boot $boot"
for name; do echo "program:$name $(command -v "$name")"; done
"""

# prints, for each permit, "ok" or "missing" and what was seen; what is tried is tried in a namespace that ends with it
_PERMITTED = """
can() { [ -w "$1" ] && echo "$2 ok $3" || echo "$2 missing cannot write to $1"; }
can /proc/sys/net/core/somaxconn sysctl "kernel settings can be written"
if said=$(nft list tables 2>&1); then echo "nft ok packet rules can be read and written"
else echo "nft missing" $said
fi
if ! said=$(unshare -n tc qdisc add dev lo root handle 1: htb 2>&1); then echo "tc missing" $said
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


class Program(NamedTuple):
    """A program that a host should have, and how to bring it there; what is not `needed` may be missing."""

    binary: str
    get: str
    needed: bool = True


class Check(NamedTuple):
    """One line of the doctor's table; `fix` says what to do where it is not ok."""

    where: str
    what: str
    state: State
    seen: str
    fix: str = ""


ALWAYS = (
    Program("setsid", "apt-get install util-linux"),
    Program("sha256sum", "apt-get install coreutils"),
    Program("date", "apt-get install coreutils"),
    # without it an owner of the host's lock is told by its process
    Program("flock", "apt-get install util-linux", needed=False),
)


Probe = Callable[[RemoteHost], Check]


def check_hosts(
    path: Path,
    hosts: HostsFile,
    wanted: Mapping[str, Sequence[Program]],
    probes: Mapping[str, Sequence[Probe]] | None = None,
) -> list[Check]:
    """Log in to every host at the same time and look.

    Parameters
    ----------
    wanted : alias -> the programs that its roles ask for.
    probes : alias -> what else is to be asked of a host.
    """
    with ThreadPoolExecutor(max(1, len(hosts.hosts))) as pool:
        ask = probes or {}
        look = partial(_check_host, path, hosts)
        found = list(pool.map(lambda alias: look(alias, wanted.get(alias, ()), ask.get(alias, ())), hosts.hosts))
    boots = {alias: boot for alias, (_, boot) in zip(hosts.hosts, found, strict=True) if boot}
    return [check for checks, _ in found for check in checks] + list(_shared_machines(hosts, boots))


def _check_host(
    path: Path, hosts: HostsFile, alias: str, wanted: Sequence[Program], probes: Sequence[Probe]
) -> tuple[list[Check], str | None]:
    try:
        host = connect(path, alias, "doctor", hosts=hosts)
    except HostError as error:
        return [Check(alias, "login", "missing", error.message, error.hint or "")], None
    try:
        checks, boot = _look(host, hosts, [*ALWAYS, *wanted])
        return [*checks, *(probe(host) for probe in probes)], boot
    except HostError as error:
        return [Check(alias, "commands", "missing", error.message, error.hint or "")], None
    finally:
        host.close()


def _look(host: RemoteHost, hosts: HostsFile, programs: Sequence[Program]) -> tuple[list[Check], str | None]:
    answer = host.script(_LOOK, [p.binary for p in programs], timeout_s=20).stdout.decode(errors="replace")
    said = {line.partition(" ")[0]: line.partition(" ")[2] for line in answer.splitlines()}
    mask = hosts.hosts[host.alias].cpus
    checks = [
        Check(host.alias, "login", "ok", f"{host.shown}, host key trusted"),
        Check(host.alias, "CPU mask", "ok", ", ".join(map(str, mask)) if mask else "none"),
        *(_program(host.alias, p, said.get(f"program:{p.binary}", "")) for p in programs),
        _clock(host),
        _disk(host, said.get("free", "")),
        _nofile(host.alias, said.get("nofile", "")),
        _forwarding(host),
        _lock(host, hosts.hosts[host.alias].lock or LOCK),
        *_permitted(host, hosts.hosts[host.alias].may),
    ]
    return checks, said.get("boot")


def _program(alias: str, program: Program, path: str) -> Check:
    if path:
        return Check(alias, program.binary, "ok", path)
    state: State = "missing" if program.needed else "doubt"
    return Check(alias, program.binary, state, "not installed", program.get)


def _clock(host: RemoteHost) -> Check:
    clock = host.clock()
    ok = abs(clock.offset_s) < GOOD_OFFSET_S
    seen = f"{seconds(abs(clock.offset_s))} {'ahead of' if clock.offset_s > 0 else 'behind'} ours"
    return Check(host.alias, "clock", "ok" if ok else "doubt", seen, "" if ok else "traces are shifted; better run NTP")


def _disk(host: RemoteHost, free: str) -> Check:
    if not free.isdigit():
        return Check(host.alias, "disk", "doubt", "free space unknown", "df -Pk gave no number")
    left = int(free) * 1024
    state: State = "ok" if left >= GOOD_DISK_B else "doubt" if left >= MIN_DISK_B else "missing"
    return Check(
        host.alias, "disk", state, f"{size(left)} free at {host.workdir}", "" if state == "ok" else "free some"
    )


def _nofile(alias: str, limit: str) -> Check:
    ok = limit == "unlimited" or (limit.isdigit() and int(limit) >= GOOD_NOFILE)
    fix = "" if ok else "many connections need more: raise nofile in /etc/security/limits.conf"
    return Check(alias, "open files", "ok" if ok else "doubt", f"limit {limit}", fix)


def _forwarding(host: RemoteHost) -> Check:
    ok = host.may_forward()
    fix = "" if ok else "set `AllowTcpForwarding local` in its sshd_config: the page is checked through it"
    return Check(host.alias, "forwarding", "ok" if ok else "missing", "allowed" if ok else "refused by sshd", fix)


def _lock(host: RemoteHost, lock: str) -> Check:
    """Tell whether a run holds the machine, and whether the host can tell that it does."""
    owners = owners_in(host.script(ask_text(launcher()[0], "owners", lock), timeout_s=20).stdout)
    if owners:
        return Check(
            host.alias, "lock", "doubt", f"in use by {owners[0].said}", "wait for its end: loadbook run --wait"
        )
    return Check(host.alias, "lock", "ok", f"free, {lock}")


def _permitted(host: RemoteHost, may: Sequence[Permit]) -> Iterator[Check]:
    """Yield, for each thing that the hosts file allows, whether the host lets us do it."""
    if not may:
        return
    answer = host.script(_PERMITTED, timeout_s=20).stdout.decode(errors="replace")
    said = {line.partition(" ")[0]: line.split(" ", 2)[1:] for line in answer.splitlines()}
    for permit in may:
        state, *seen = said.get(permit, ["missing", "not found on this host"])
        doubts = {"tc": "a driver's delay is then made in userspace", "system": "log in as root there"}
        fixes = {"ok": "", "doubt": doubts.get(permit, "")}
        fix = fixes.get(state, f"log in as root there, install what is missing, or take {permit} out of `may`")
        yield Check(host.alias, f"may {permit}", cast("State", state), " ".join(seen), fix)


def _shared_machines(hosts: HostsFile, boots: Mapping[str, str]) -> Iterator[Check]:
    """Doubt hosts that are one machine without CPU masks that keep them apart, together in one line."""
    groups: list[set[str]] = []
    for alias in boots:
        met = [group for group in groups if any(_share(hosts, boots, alias, other) for other in group)]
        groups = [group for group in groups if group not in met] + [{alias}.union(*met)]
    for group in groups:
        if len(group) > 1:
            names = ", ".join(alias for alias in boots if alias in group)
            yield Check(
                names, "machine", "doubt", "one machine, CPUs shared", "give them disjoint `cpus` if there are more"
            )


def _share(hosts: HostsFile, boots: Mapping[str, str], one: str, other: str) -> bool:
    masks = hosts.hosts[one].cpus, hosts.hosts[other].cpus
    return boots[one] == boots[other] and not (masks[0] and masks[1] and set(masks[0]).isdisjoint(masks[1]))
