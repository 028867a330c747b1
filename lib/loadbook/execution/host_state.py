"""State of the hosts around a trial: lost connections, waiting until they are idle again, disk space, stale jobs.

A host that was unreachable for a while looks like a server that does not answer, and a full disk like a failed tool.
Errors of an attempt are therefore checked for these causes first (`Connectivity.root_cause`, `prefer_full_disk_error`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from loadbook.core import clock
from loadbook.core.errors import CommandError, HostError, HostFullError, LoadbookError, LostError, UnreachableError
from loadbook.core.units import format_bytes
from loadbook.execution.load import remove_job
from loadbook.execution.placement import DELAY_ROLE, job_name, job_names
from loadbook.execution.testbed import Testbed
from loadbook.hosts.host import Host
from loadbook.hosts.other_runs import OTHER_RUNS_SCRIPT, OtherRun, parse_other_runs, without_other_runs
from loadbook.hosts.script import Script
from loadbook.store.atomic import disk_full_error, free_bytes
from loadbook.study.limits import ResetSettings
from loadbook.study.plan import Plan

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"


class Connectivity:
    """Counts reconnections and detects reboots of a testbed's hosts since this object was made."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self._before = self._reconnect_counts()

    def _reconnect_counts(self) -> dict[str, int]:
        return {alias: host.reconnects for alias, host in self.testbed.hosts.items()}

    @property
    def reconnects(self) -> int:
        """Number of reconnections to all hosts so far."""
        return sum(self._reconnect_counts().values()) - sum(self._before.values())

    def check_not_rebooted(self, boot_ids: Mapping[str, str]) -> None:
        """Compare the hosts' boot ids with `boot_ids` (by host alias) and store the new ones in the testbed.

        Raises
        ------
        LostError : a host was rebooted. HostError : a host does not answer.
        """

        def read_boot_id(alias: str) -> str:
            # read as a file, not by a command, so that it is not part of the transcripts for replays
            return self.testbed.hosts[alias].get(BOOT_ID_FILE, max_bytes=100).decode("ascii", "replace").strip()

        live = [alias for alias, host in self.testbed.hosts.items() if host.live and alias in boot_ids]
        for alias, boot_id in self.testbed.map(read_boot_id, live).items():
            self.testbed.boot_ids[alias] = boot_id
            if boot_id != boot_ids[alias]:
                raise LostError(alias, "was rebooted during the trial")

    def root_cause(self, error: LoadbookError, boot_ids: Mapping[str, str]) -> LoadbookError:
        """Return a LostError if the loss or reboot of a host has caused an error, else the error itself.

        `boot_ids` maps host -> boot id at the begin of the trial.
        """
        if isinstance(error, HostError) and error.transient:
            return error
        try:
            self.check_not_rebooted(boot_ids)
        except HostError as lost:
            reason = lost.message.removeprefix(f"host {lost.host}: ")
            return LostError(lost.host, f"{reason}; before that was noticed: {error.message}")
        try:
            self.check_connected(error.message)
        except LostError as lost:
            return lost
        return error

    def check_connected(self, trouble: str) -> None:
        """Raise LostError if a host was unreachable in the meantime; `trouble` describes the observed failure."""
        for alias, count in self._reconnect_counts().items():
            if count > self._before[alias]:
                raise LostError(alias, f"was out of reach meanwhile: {trouble}")


REST_POLL_S = 0.25
STATE_TIMEOUT_S = 20.0
HOST_STATE_SCRIPT = Script(
    """
time_wait=$(sed -n 's/^TCP:.* tw \\([0-9][0-9]*\\).*/\\1/p' /proc/net/sockstat)
read -r load1 load5 rest < /proc/loadavg
read -r open_files rest < /proc/sys/fs/file-nr
conntrack=$(cat /proc/sys/net/netfilter/nf_conntrack_count 2>/dev/null)
echo "time_wait ${time_wait:-0}"
echo "load1 $load1"
echo "open_files $open_files"
[ -z "$conntrack" ] || echo "conntrack $conntrack"
df -Pk . 2>/dev/null | tail -n 1 | { read -r device total used free rest && echo "free_bytes $((free * 1024))"; }
echo "boot_id $(cat /proc/sys/kernel/random/boot_id)"
"""
    + OTHER_RUNS_SCRIPT,
    purpose="is its disk full?",
    answer="time_wait 0\nboot_id -",
)


class HostState(NamedTuple):
    """State of a host, its boot id, and other runs of loadbook on its machine.

    `state` has the keys time_wait (connections in TIME_WAIT), load1 (load average), open_files and, where known,
    conntrack (connections) and free_bytes; after a wait also waited_s, and at_rest (1 or 0).
    """

    state: dict[str, float]
    boot_id: str
    other_runs: Sequence[OtherRun] = ()


def wait_for_rest(host: Host, rule: ResetSettings, pause: Callable[[float], object] = clock.sleep) -> HostState:
    """Wait until `host` has few enough connections in TIME_WAIT, up to `rule.wait_s` seconds; return its state.

    `pause` is called to sleep for a number of seconds.
    """
    begun = clock.monotonic()
    pause(rule.settle_s if host.live else 0)
    while True:
        rest = read_state(host, HOST_STATE_SCRIPT.used_for("until nothing is left of the last trial"))
        waited_s = clock.monotonic() - begun
        at_rest = rest.state["time_wait"] <= rule.time_wait_sockets
        if at_rest or waited_s >= rule.wait_s:
            return rest._replace(state=rest.state | {"waited_s": round(waited_s, 3), "at_rest": float(at_rest)})
        pause(REST_POLL_S)


def read_state(host: Host, script: Script = HOST_STATE_SCRIPT) -> HostState:
    """Return the host's current state and boot id, read by one script."""
    done = host.script(script, timeout_s=STATE_TIMEOUT_S, check=True)
    try:
        output = done.stdout.decode("utf-8", "replace")
        fields = dict(line.split(" ", 1) for line in without_other_runs(output).splitlines())
        boot_id = fields.pop("boot_id")
        # a replay's host lists the recorded run itself
        other_runs = parse_other_runs(output) if host.live else []
        return HostState({name: float(text) for name, text in fields.items()}, boot_id, other_runs)
    except (ValueError, KeyError) as error:
        raise CommandError(host.alias, f"its state under /proc cannot be read: {done.stdout[:200]!r}") from error


# free space needed, as a multiple of the plan's rough estimate
DISK_FACTOR = 2
HOST_MIN_BYTES = 50_000_000
# free bytes needed before a trial; after a trial, a disk with less than the second number counts as full
HOST_TRIAL_BYTES, HOST_FULL_BYTES = 10_000_000, 1_000_000
FREE_SPACE_HINT = "free some space there, or name a `workdir` on another disk in the hosts file"
REMOTE_DISK_FULL = "remote disk full"


def check_free_space(host: Host, state: Mapping[str, float], need: int) -> None:
    """Raise HostFullError if `free_bytes` of a host's state is less than `need` bytes; not if it is unknown."""
    free = state.get("free_bytes", need)
    if free < need:
        message = f"{REMOTE_DISK_FULL}: {format_bytes(free)} free at {host.workdir}, {format_bytes(need)} needed"
        raise HostFullError(host.alias, message, FREE_SPACE_HINT)


def check_disks_not_full(testbed: Testbed) -> None:
    """Raise HostFullError if a host's disk is full: if it has less than 1 MB free."""
    for alias, rest in testbed.map(lambda alias: read_state(testbed.hosts[alias]), testbed.hosts).items():
        check_free_space(testbed.hosts[alias], rest.state, HOST_FULL_BYTES)


def prefer_full_disk_error(testbed: Testbed, error: LoadbookError) -> LoadbookError:
    """Return a HostFullError if a host's disk is full, which explains the error; else the error itself."""
    if not isinstance(error, LostError | UnreachableError | HostFullError):
        try:
            check_disks_not_full(testbed)
        except HostFullError as full:
            return full
        except LoadbookError:
            return error
    return error


def check_local_space(folder: Path, plan: Plan) -> None:
    """Raise DiskFullError if the controller's disk has no space for one more trial in `folder`.

    Needed is twice the plan's estimate of the size of a trial.
    """
    need = DISK_FACTOR * plan.disk_bytes // max(1, len(plan.trials))
    if free_bytes(folder) < need:
        raise disk_full_error(folder, need, "before the next trial")


STALE_JOB_GRACE_S = 1.0


def remove_stale_jobs(testbed: Testbed, stems: Sequence[str]) -> None:
    """Stop the jobs of attempts (`stems`: prefixes of their names) and remove their files on every host.

    Raises HostError if a host is unreachable.
    """
    roles = (*testbed.plan.study.roles, DELAY_ROLE)

    def remove(alias: str) -> None:
        host = testbed.hosts[alias]
        for stem in stems:
            for name in job_names(stem, roles):
                remove_job(host, name, STALE_JOB_GRACE_S)
            for role in roles:
                host.remove(f"{host.workdir}/services/{job_name(stem, role)}")

    testbed.map(remove, testbed.hosts)
