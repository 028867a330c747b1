"""Changes of a host for one trial, and their rollback: kernel settings, network toward the target, CPU quotas.

The script undo.sh on the host records every original setting before it is changed (by guard.sh: kernel and network; by
system.sh: files of the host's own servers) and restores it when the job that made the change ends, or on request.

A job on the host (guard.sh) makes all changes, verifies them, and undoes them when it ends: because it is stopped,
because its lease expires, or because the controller died. It usually needs root on the host, and iproute2 for
addresses and the network; only changes listed in `allow` of the hosts file are made (`permission_problem`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from loadbook.core.errors import HostError, UsageError
from loadbook.hosts.host import Host, Job
from loadbook.hosts.inventory import Permission
from loadbook.hosts.jobs import job_folder
from loadbook.hosts.script import DRY_RUN_PID, Script

SCRIPT_NAME = "undo.sh"
SCRIPT_PARTS = (SCRIPT_NAME, "guard.sh", "system.sh")
# long enough to reload a server and wait for its old processes, twice if another job is restoring at the same time
RESTORE_TIMEOUT_S = 180.0
END_TIMEOUT_S = 60.0
# waits up to $2 fiftieths of a second until job $1 has written the result of its changes, or ended; prints the result
OUTCOME_SCRIPT = Script(
    """: loadbook asks whether the changes were made
tries=$2
while [ ! -e "$1/state" ] && [ ! -e "$1/rc" ] && [ "$tries" -gt 0 ]; do tries=$((tries - 1)); sleep 0.02; done
cat "$1/state" 2>/dev/null || echo "silent $(tail -c 300 "$1/stderr.1" 2>/dev/null)"
""",
    purpose="were the changes made, or refused?",
    answer="done",
)


# action of the rollback script -> its purpose
ACTION_PURPOSES = {
    "restore": "puts back what is left changed, if anything",
    "again": "tries once more to put back what is left changed",
    "stage": "checks a copy of the configuration tree",
    "settle": "until no process of before is left",
    "server": "its processes",
}


class NotRestoredError(HostError):
    """A host could not be restored to its original state; the message lists every reason with its remedy."""

    def __init__(self, host: str, failures: list[str]) -> None:
        hint = "resolve the problems above, then: loadbook restore [--hosts FILE]"
        super().__init__(host, "\n".join(["is not as it was found:", *(f"  {failure}" for failure in failures)]), hint)


@cache
def rollback_script() -> Script:
    """Return the text of undo.sh, guard.sh and system.sh as one script; its first argument is the action."""
    texts = [files("loadbook.hosts").joinpath(name).read_text(encoding="utf-8") for name in SCRIPT_PARTS]
    answers = {"settle": "settled", "server": str(DRY_RUN_PID)}
    return Script(
        "".join([*texts, '"$@"\n']), lambda args: ACTION_PURPOSES[args[0]], lambda args: answers.get(args[0], "")
    )


def rollback_job(name: str, args: tuple[str, ...], lease_s: float) -> Job:
    """Return the job that makes changes and undoes them when it ends for any reason.

    `args` are the arguments of `rollback_script`, the action first; the host ends the job after `lease_s` seconds.
    """
    step = ("/bin/sh", SCRIPT_NAME, *args)
    return Job(name, (step,), lease_s, files={SCRIPT_NAME: rollback_script().encode()}, ends_with_session=True)


def wait_for_changes(host: Host, name: str, timeout_s: float) -> str | None:
    """Wait until a running job has made its changes; return the reason of a refused change, None if all were made.

    A text is also returned if the job has not finished its changes after `timeout_s` seconds.
    """
    args = [job_folder(name), str(round(timeout_s * 50))]
    output = host.script(OUTCOME_SCRIPT, args, timeout_s=timeout_s + 5).text
    status, _, reason = output.strip().partition(" ")
    return None if status == "done" else reason or "the job on the host printed nothing"


def restore(host: Host, name: str = "", *, retry: bool = False) -> list[str]:
    """Undo the changes left by jobs that no longer run, or by job `name` only; return a line per restored setting.

    With `retry`, also retry settings that could not be restored before; without it they are only reported again.

    Raises
    ------
    NotRestoredError : a setting could not be restored, or somebody else has changed it in the meantime.
    """
    args = ("again" if retry else "restore", *([name] if name else []))
    done = host.script(rollback_script(), args, timeout_s=RESTORE_TIMEOUT_S)
    entries = [line.partition(" ") for line in done.text.splitlines()]
    failures = [message for status, _, message in entries if status == "left"]
    if done.rc and not failures:
        failures = [f"what is left could not be looked at: {done.stderr.decode(errors='replace').strip()[-500:]}"]
    if failures:
        raise NotRestoredError(host.alias, failures)
    return [message for status, _, message in entries if status == "done"]


def end_job(host: Host, name: str) -> None:
    """End a job that made changes; NotRestoredError if one of them could not be undone."""
    host.stop(name, grace_s=END_TIMEOUT_S)
    restore(host, name)


CHANGES_TIMEOUT_S = 10.0
MIN_QUOTA_CPUS = 0.05  # CPUs
_SYSCTL = re.compile(r"[a-z0-9_]+(\.[A-Za-z0-9_-]+)+")
_VALUE = re.compile(r"[A-Za-z0-9_.:,+-]+([ \t]+[A-Za-z0-9_.:,+-]+)*")
_ADDRESS = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TABLE = re.compile(r"[a-z]+ [a-z][a-z0-9-]*")
NETEM_SCRIPT = Script(
    ": loadbook asks whether the kernel can delay packets\nexec unshare -n tc qdisc add dev lo root netem delay 1ms",
    purpose="can its kernel delay? If not: the service delay-line instead",
)


@dataclass(frozen=True)
class HostChanges:
    """Changes of one host by one trial.

    Parameters
    ----------
    sysctls : kernel setting, such as net.core.somaxconn -> its value.
    delay_ms : milliseconds added to every packet on the way to `destination`.
    loss : share (0 to 1) of the packets to `destination` that are lost.
    rate_mbit : limit of the rate to `destination`, megabits per second; None for no limit.
    destination : address to which delay, loss and rate apply; "" for all packets sent on the host's interface.
    quotas : name (a role) -> limit of CPU time in CPUs (0.5: half of one), shared by all processes that join its
        cgroup (`cgroup_file`).
    accepted_addresses : IPv4 addresses whose packets the host accepts as its own, without announcing them (ARP).
    tables : nftables tables ("ip name") that a service creates; they are deleted if it is killed before it does so.
    """

    sysctls: Mapping[str, str | int] = field(default_factory=dict)
    delay_ms: float = 0.0
    loss: float = 0.0
    rate_mbit: float | None = None
    destination: str = ""
    quotas: Mapping[str, float] = field(default_factory=dict)
    accepted_addresses: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()

    def __or__(self, other: HostChanges) -> HostChanges:
        """Return the union of both sets of changes; where both set a value, that of `other` is taken."""
        return HostChanges(
            {**self.sysctls, **other.sysctls},
            other.delay_ms or self.delay_ms,
            other.loss or self.loss,
            other.rate_mbit or self.rate_mbit,
            other.destination or self.destination,
            {**self.quotas, **other.quotas},
            tuple(dict.fromkeys((*self.accepted_addresses, *other.accepted_addresses))),
            tuple(dict.fromkeys((*self.tables, *other.tables))),
        )

    def to_record(self) -> dict[str, str | float]:
        """Return the changes as name -> value for the trial record."""
        network = {"delay_ms": self.delay_ms, "loss": self.loss, "rate_mbit": self.rate_mbit or 0.0}
        quotas = {f"cpu_quota of {name}": cpus for name, cpus in self.quotas.items()}
        accepts = {"accepts": " ".join(self.accepted_addresses)} if self.accepted_addresses else {}
        record: dict[str, str | float] = {name: str(value) for name, value in self.sysctls.items()}
        return record | {name: value for name, value in network.items() if value} | quotas | accepts

    def required_permissions(self) -> list[Permission]:
        """Return the permissions that these changes need in the hosts file."""
        needed: dict[Permission, object] = {
            "sysctl": self.sysctls,
            "tc": self.delay_ms or self.loss or self.rate_mbit,
            "cgroup": self.quotas,
            "nft": self.accepted_addresses or self.tables,
        }
        return [permission for permission, value in needed.items() if value]

    def script_lines(self) -> list[str]:
        """Return the changes as arguments of guard.sh, one text for each; UsageError for an invalid value."""
        lines = []
        for name, value in self.sysctls.items():
            lines.append(f"sysctl {_validated(_SYSCTL, name, 'sysctl')} {_validated(_VALUE, str(value), name)}")
        if "tc" in self.required_permissions():
            to = _validated(_ADDRESS, self.destination, "address") if self.destination else "all"
            rate_kbit = round((self.rate_mbit or 0) * 1000)
            lines.append(f"path {to} {round(self.delay_ms * 1000)} {self.loss * 100:g} {rate_kbit}")
        lines += [f"accept {_validated(_ADDRESS, address, 'address')}" for address in self.accepted_addresses]
        for name, cpus in self.quotas.items():
            if cpus < MIN_QUOTA_CPUS:
                raise UsageError(f"a quota of {cpus:g} CPUs is too little: at least {MIN_QUOTA_CPUS:g}")
            lines.append(f"quota {_validated(_NAME, name, 'quota')} {round(cpus * 100)}")
        return [*lines, *(f"table {_validated(_TABLE, table, 'table')}" for table in self.tables)]


def _validated(pattern: re.Pattern[str], text: str, kind: str) -> str:
    if not pattern.fullmatch(text):
        raise UsageError(f"{kind}: {text!r} is not a value that loadbook would set")
    return text


def permission_problem(
    alias: str, allowed: Sequence[Permission], required: Sequence[Permission], subject: str
) -> str | None:
    """Return a message if the hosts file lacks permissions that `subject` (a service, a treatment) needs, else None."""
    missing = [permission for permission in required if permission not in allowed]
    if not missing:
        return None
    all_permissions = ", ".join(f'"{permission}"' for permission in [*allowed, *missing])
    problem = f"host {alias}: {subject}: needs {', '.join(missing)}, which the hosts file does not allow"
    lab = "the namespace lab allows it (as root: loadbook lab up --kind netns)"
    return f"{problem} (allow it in the hosts file: allow = [{all_permissions}]; {lab})"


def has_netem(host: Host) -> bool:
    """Return whether the host's kernel can delay packets with our permissions, tried in a temporary namespace."""
    return host.script(NETEM_SCRIPT, timeout_s=CHANGES_TIMEOUT_S).rc == 0


def apply_changes(host: Host, name: str, changes: HostChanges, lease_s: float) -> None:
    """Start the job `name`, which changes a host, and undoes that when it is stopped or after `lease_s` seconds.

    Raises
    ------
    HostError : a change was refused; all others were undone. NotRestoredError : not all others could be undone.
    UsageError : a value is invalid.
    """
    args = ("guard", _validated(_ADDRESS, host.address, "address"), *changes.script_lines())
    host.start(rollback_job(name, args, lease_s))
    refusal = wait_for_changes(host, name, CHANGES_TIMEOUT_S)
    if refusal is not None:
        end_job(host, name)
        hint = "this takes root on that host" if "denied" in refusal or "not permitted" in refusal else None
        if "netem" in refusal:
            instead = "take a delay of the driver, which loadbook can make in userspace, or another host"
            hint = f"its kernel has no netem: {instead}"
        raise HostError(host.alias, f"refuses a change: {refusal}", hint)


def cgroup_file(name: str, quota: str) -> str:
    """Return the file (relative to the work folder) in which job `name` writes the path of a cgroup.procs file.

    `quota` is the name of one of `HostChanges.quotas`, whose cgroup it is; each quota has a file of its own.
    """
    return f"{job_folder(name)}/cgroup-{quota}"
