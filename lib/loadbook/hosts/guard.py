"""What a trial changes of a host, and puts back: kernel settings, the network toward the target, CPU time.

A job on the host (guard.sh) changes everything, reads it back, and puts it back when it ends (`hosts.undo`): because
it is stopped, because its lease is over, or because we died. It needs root there, as a rule, and iproute2 for addresses
and the network; only what `may` of the hosts file allows is changed (`not_allowed`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loadbook.core.errors import HostError, UsageError
from loadbook.hosts import undo
from loadbook.hosts.host import Host, Job
from loadbook.hosts.inventory import Permit
from loadbook.hosts.jobs import folder

READY_S = 10.0
MIN_QUOTA = 0.05  # CPUs; a thousandth of a second in each period
ALLOW = "allow it in the hosts file: may = [{}]; the namespace lab allows it (as root: loadbook lab up --kind netns)"
_SYSCTL = re.compile(r"[a-z0-9_]+(\.[A-Za-z0-9_-]+)+")
_VALUE = re.compile(r"[A-Za-z0-9_.:,+-]+([ \t]+[A-Za-z0-9_.:,+-]+)*")
_ADDRESS = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TABLE = re.compile(r"[a-z]+ [a-z][a-z0-9-]*")
NETEM = ": loadbook asks whether the kernel can delay packets\nexec unshare -n tc qdisc add dev lo root netem delay 1ms"


@dataclass(frozen=True)
class Changes:
    """What one trial changes of one host.

    Parameters
    ----------
    delay_ms : milliseconds added to every packet on the way to `toward`.
    loss : share of the packets to `toward` that are lost.
    rate_mbit : megabits per second that may go to `toward`; None: as many as do.
    toward : the address that delay, loss and rate count for; "": everybody, on the interface of the host's own address.
    quotas : name (a role) -> CPUs' worth of time that the processes get together which join it (`door`).
    accepts : IPv4 addresses of others whose packets the host takes for its own, without telling the network so.
    tables : tables of packet rules ("ip name") that a service makes, deleted when it was killed before it could.
    """

    sysctls: Mapping[str, str | int] = field(default_factory=dict)
    delay_ms: float = 0.0
    loss: float = 0.0
    rate_mbit: float | None = None
    toward: str = ""
    quotas: Mapping[str, float] = field(default_factory=dict)
    accepts: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()

    def __or__(self, other: Changes) -> Changes:
        """Return both together; where they differ, `other` has its way."""
        return Changes(
            {**self.sysctls, **other.sysctls},
            other.delay_ms or self.delay_ms,
            other.loss or self.loss,
            other.rate_mbit or self.rate_mbit,
            other.toward or self.toward,
            {**self.quotas, **other.quotas},
            tuple(dict.fromkeys((*self.accepts, *other.accepts))),
            tuple(dict.fromkeys((*self.tables, *other.tables))),
        )

    def said(self) -> dict[str, str | float]:
        """Return what is changed, for the trial's record."""
        network = {"delay_ms": self.delay_ms, "loss": self.loss, "rate_mbit": self.rate_mbit or 0.0}
        quotas = {f"cpu_quota of {name}": cpus for name, cpus in self.quotas.items()}
        accepts = {"accepts": " ".join(self.accepts)} if self.accepts else {}
        own: dict[str, str | float] = {name: str(value) for name, value in self.sysctls.items()}
        return own | {name: value for name, value in network.items() if value} | quotas | accepts

    def permits(self) -> list[Permit]:
        """Return what the hosts file must allow for these changes."""
        wanted: dict[Permit, object] = {
            "sysctl": self.sysctls,
            "tc": self.delay_ms or self.loss or self.rate_mbit,
            "cgroup": self.quotas,
            "nft": self.accepts or self.tables,
        }
        return [permit for permit, value in wanted.items() if value]

    def lines(self) -> list[str]:
        """Return the changes as guard.sh reads them; UsageError for a value that is none."""
        sysctls = [
            f"sysctl {_checked(_SYSCTL, name, 'sysctl')} {_checked(_VALUE, str(value), name)}"
            for name, value in self.sysctls.items()
        ]
        accepts = [f"accept {_checked(_ADDRESS, address, 'address')}" for address in self.accepts]
        quotas = [f"quota {_checked(_NAME, name, 'quota')} {_percent(cpus)}" for name, cpus in self.quotas.items()]
        tables = [f"table {_checked(_TABLE, table, 'table')}" for table in self.tables]
        return sysctls + self._network() + accepts + quotas + tables

    def _network(self) -> list[str]:
        if "tc" not in self.permits():
            return []
        to = _checked(_ADDRESS, self.toward, "address") if self.toward else "all"
        return [f"path {to} {round(self.delay_ms * 1000)} {self.loss * 100:g} {round((self.rate_mbit or 0) * 1000)}"]


def _checked(pattern: re.Pattern[str], text: str, what: str) -> str:
    if not pattern.fullmatch(text):
        raise UsageError(f"{what}: {text!r} is not a value that loadbook would set")
    return text


def _percent(cpus: float) -> int:
    if cpus < MIN_QUOTA:
        raise UsageError(f"a quota of {cpus:g} CPUs is too little: at least {MIN_QUOTA:g}")
    return round(cpus * 100)


def not_allowed(alias: str, may: Sequence[Permit], permits: Sequence[Permit], why: str) -> str | None:
    """Return in words what `why` (a service, a treatment) needs and the hosts file does not allow, None for nothing."""
    lacking = [permit for permit in permits if permit not in may]
    if not lacking:
        return None
    known = ", ".join(f'"{permit}"' for permit in [*may, *lacking])
    said = f"host {alias}: {why}: needs {', '.join(lacking)}, which the hosts file does not allow"
    return f"{said} ({ALLOW.format(known)})"


def has_netem(host: Host) -> bool:
    """Tell whether the host's kernel can delay packets, and lets us; tried in a namespace that is gone at once."""
    return host.script(NETEM, timeout_s=READY_S).rc == 0


def set_up(host: Host, name: str, changes: Changes, lease_s: float) -> None:
    """Change a host until the job `name` ends; stop it to put everything back.

    Raises
    ------
    HostError : what was refused, and why; nothing is left changed. NotRestoredError : something is, after all.
    UsageError : a value that is none.
    """
    host.start(job(name, changes, lease_s, host.address))
    refused = undo.outcome(host, name, READY_S)
    if refused is not None:
        undo.end(host, name)
        raise HostError(host.alias, f"refuses a change: {refused}", _hint(refused))


def job(name: str, changes: Changes, lease_s: float, own: str) -> Job:
    """Return the job that makes the changes and puts everything back when it ends; UsageError for a value.

    `own` is the address that others know the host by.
    """
    return undo.job(name, ("guard", _checked(_ADDRESS, own, "address"), *changes.lines()), lease_s)


def door(name: str, quota: str) -> str:
    """Return the file, below the work folder, that says which file takes a process into a quota of guard `name`."""
    return f"{folder(name)}/cgroup-{quota}"


def _hint(words: str) -> str | None:
    if "netem" in words:
        return (
            "its kernel has no netem: take a delay of the driver, which loadbook can make in userspace, or another host"
        )
    return "this takes root on that host" if "denied" in words or "not permitted" in words else None
