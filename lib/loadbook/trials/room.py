"""Room on the disks of both sides: before the run, before each trial, and after its load.

A disk that fills in mid-trial is seldom named by what fails there first: a tool prints half a report and ends with 0,
a server goes on without its log. So whoever finds something wrong looks at the disks before it believes the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from loadbook.core.errors import HostFullError, LoadbookError, LostError, UnreachableError
from loadbook.core.units import format_bytes
from loadbook.design.plan import Plan
from loadbook.hosts.host import Host
from loadbook.records.atomic import free_bytes, disk_full_error
from loadbook.trials.bench import Testbed
from loadbook.trials.reset import read_state

# the plan's estimate is rough, and a full disk costs more than a refusal
DISK_FACTOR = 2
HOST_MIN_BYTES = 50_000_000
# before one trial; and what is left on a disk that counts as full after it
HOST_TRIAL_BYTES, HOST_FULL_BYTES = 10_000_000, 1_000_000
FREE_SPACE_HINT = "free some space there, or name a `workdir` on another disk in the hosts file"
REMOTE_DISK_FULL = "remote disk full"


def check_free_space(host: Host, state: Mapping[str, float], need: int) -> None:
    """Refuse a host of which `state` (see `reset.HostState`) says that less is free than needed; HostFullError names it."""
    free = state.get("free_bytes", need)
    if free < need:
        raise HostFullError(host.alias, f"{REMOTE_DISK_FULL}: {format_bytes(free)} free at {host.workdir}, {format_bytes(need)} needed", FREE_SPACE_HINT)


def check_disks_not_full(testbed: Testbed) -> None:
    """See that no host's disk filled up during the trial: what was written there since is not to be trusted."""
    for alias, rest in testbed.map(lambda alias: read_state(testbed.hosts[alias]), testbed.hosts).items():
        check_free_space(testbed.hosts[alias], rest.state, HOST_FULL_BYTES)


def prefer_full_disk_error(testbed: Testbed, error: LoadbookError) -> LoadbookError:
    """Return that a host's disk is full where it is, else the error itself; a host that is lost is not asked."""
    if not isinstance(error, LostError | UnreachableError | HostFullError):
        try:
            check_disks_not_full(testbed)
        except HostFullError as full:
            return full
        except LoadbookError:
            return error
    return error


def check_local_space(folder: Path, plan: Plan) -> None:
    """See that one more trial has room on our side; NoRoomError names the folder and what is needed."""
    need = DISK_FACTOR * plan.disk_bytes // max(1, len(plan.trials))
    if free_bytes(folder) < need:
        raise disk_full_error(folder, need, "before the next trial")
