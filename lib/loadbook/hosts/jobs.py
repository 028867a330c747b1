"""Shell commands for job.sh, which runs detached jobs on a host, and for the lock that allows one run per machine.

The lock is held by the watcher process on the host, which ends the jobs of a controller that is gone; it is released
when they have ended (lock.sh).
"""

from __future__ import annotations

import getpass
import hashlib
import math
import os
import re
import secrets
import shlex
import socket
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from loadbook.core import clock
from loadbook.core.errors import HostError
from loadbook.core.units import format_duration
from loadbook.hosts.host import Job, JobState
from loadbook.hosts.shell import sh_join
from loadbook.store.paths import check_name

NAME_TAKEN_RC = 9


@cache
def launcher_script() -> tuple[str, bytes]:
    """Return file name and text of lock.sh and job.sh as one script.

    The name is relative to the work folder; it contains a digest, so that versions are not mixed.
    """
    text = b"".join(files("loadbook.hosts").joinpath(name).read_bytes() for name in ("lock.sh", "job.sh"))
    return f"bin/job-{hashlib.sha256(text).hexdigest()[:12]}.sh", text


def script_command(verb: str, *args: str) -> str:
    """Return shell text that runs job.sh (which lists its verbs) in the host's work folder."""
    return sh_join(["/bin/sh", launcher_script()[0], verb, *args])


def job_folder(name: str) -> str:
    """Return a job's folder relative to the work folder; UsageError for an invalid job name."""
    return f"jobs/{check_name('job', name)}"


def prepare_text(job: Job, session: str) -> str:
    """Return shell text that makes the job's folder; exit code NAME_TAKEN_RC if it is already there.

    `session` is the name of the session whose end also ends the job, if the job `ends_with_session`.
    """
    folder_arg = shlex.quote(job_folder(job.name))
    lines = [f"mkdir -p jobs && mkdir {folder_arg} 2>/dev/null || exit {NAME_TAKEN_RC}"]
    for number, step in enumerate(job.steps, 1):
        command = shlex.quote(f"exec {sh_join(step)}\n")
        lines.append(f"printf %s {command} >{folder_arg}/cmd.{number} || exit 1")
    if job.last_step_at is not None:
        lines.append(f"echo {job.last_step_at:.3f} >{folder_arg}/at.{len(job.steps)} || exit 1")
    if job.ends_with_session:
        lines.append(f"echo {session} >{folder_arg}/session || exit 1")
    return "\n".join(lines)


def launch_text(job: Job) -> str:
    """Return shell text that starts a prepared job, detached, by job.sh and prints its process id."""
    folder = job_folder(job.name)
    command = script_command("run", folder, str(math.ceil(job.lease_s)))
    return f"setsid {command} </dev/null >/dev/null 2>{shlex.quote(folder)}/log & echo $!"


def sampler_files() -> dict[str, bytes]:
    """Return name -> content of the files (`Job.files`) that the sampler's job needs."""
    quotas = files("loadbook.hosts").joinpath("cgroups.sh").read_bytes()
    return perl_program_files(SAMPLER_PROGRAM) | {"cgroups.sh": quotas}


def perl_program_files(program: str) -> dict[str, bytes]:
    """Return name -> content of the files (`Job.files`) that a job needs to run `program`, such as sampler.pl."""
    return {name: files("loadbook.hosts").joinpath(name).read_bytes() for name in (program, "cpu_time.pl")}


def parse_state(output: bytes) -> JobState:
    """Parse the output of `job.sh state`: process id and exit code ("-" if unknown), and 1 while running."""
    pid, rc, running = (None if f == "-" else int(f) for f in output.split(b"\n")[0].decode().split())
    return JobState(pid, rc, running == 1)


WARMUP_SUFFIX = "-warmup"  # of the name of a job that only warms up
CALIBRATION_SUFFIX = "-probe"  # of the name of a job that measures the latency of the arms of an interleaved block
INTERLEAVE_PROGRAM = "interleave.pl"  # lets the load generators of an interleaved block take turns
SAMPLER_PROGRAM = "sampler.pl"  # reads what the kernel counts
CPU_READINGS_PROGRAM = "cpu_samples.pl"  # reads the CPU time of services all the time
# the same path for every user of a machine, unlike the work folders
DEFAULT_LOCK_FILE = "/tmp/loadbook-host.lock"  # noqa: S108
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9@._-]")


@cache
def pid_namespace_id() -> str:
    """Return an id of our pid namespace; two controllers with the same id can check whether the other is alive."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    try:
        identity = boot.read_text() + str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        identity = secrets.token_hex()
    return hashlib.sha256(identity.encode()).hexdigest()[:8]


def process_start_ticks(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot; "" if it does not exist."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else fields[18]


def own_process_identity() -> str:
    """Return an identity of this process that no later process with its id has."""
    return f"{pid_namespace_id()}:{process_start_ticks(os.getpid())}"


@dataclass(frozen=True)
class LockRequest:
    """Identity of a controller that requests a host's lock; it is the same for all aliases of one machine.

    Parameters
    ----------
    study, run : name of the study and id of the run that lock the host.
    lock_file : the lock's file on the host.
    evict_id : id, given by the user, of a lock owner whose sessions are ended first; "" for none.
    id : id of this owner, which the user of another run may name to end its sessions.
    since_s : time of the request by the monotonic clock, from which `LockOwner.age_s` counts.
    """

    study: str
    run: str
    lock_file: str = DEFAULT_LOCK_FILE
    evict_id: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    since_s: float = field(default_factory=clock.monotonic)

    def script_args(self) -> list[str]:
        """Return the arguments of `take` in lock.sh: file, id, user, pid, process identity, study, run, age (s)."""
        user = f"{getpass.getuser()}@{socket.gethostname()}"
        user, study, run = (_UNSAFE_CHARACTERS.sub("_", word)[:100] for word in (user, self.study, self.run))
        held_s = str(int(clock.monotonic() - self.since_s))
        return [self.lock_file, self.id, user, str(os.getpid()), own_process_identity(), study, run, held_s]


class LockOwner(NamedTuple):
    """Owner of a machine's lock; `age_s` is the number of seconds since it requested the lock.

    `ending`: its jobs are being ended. `user`: user@machine of the controller. `pid`: its process there.
    """

    age_s: float
    ending: bool
    id: str
    user: str
    pid: int
    process_identity: str
    study: str
    run: str

    @property
    def description(self) -> str:
        """Return a text with the owner's user, machine, process, run and study, and how long it has held the lock."""
        purpose = f"run {self.run} of {self.study}"
        return f"{self.user} (process {self.pid}), {purpose}, for {format_duration(max(0.0, self.age_s))}"

    @property
    def is_dead(self) -> bool:
        """Return whether the owner was a process on this machine that no longer exists; False for owners elsewhere."""
        namespace_id, _, start_time = self.process_identity.partition(":")
        return namespace_id == pid_namespace_id() and process_start_ticks(self.pid) != start_time


def parse_owners(output: bytes) -> list[LockOwner]:
    """Parse the output of `job.sh owners`: one entry per owner of the machine's lock and host alias."""
    owners = []
    for line in output.decode("utf-8", "replace").splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[0].lstrip("-").isdigit() and fields[4].isdigit():
            age, status, owner, user, pid, *rest = fields
            owners.append(LockOwner(float(age), status == "ending", owner, user, int(pid), *rest))
    return owners


class InUseError(HostError):
    """Another run uses the machine; nothing was changed on it, so the call can be repeated later."""

    transient = True

    def __init__(self, host: str, owner: LockOwner) -> None:
        end = f"loadbook run STUDY --break-lock {owner.id}"
        hint = f"loadbook run STUDY --wait starts when that run has ended; to end it: {end}"
        super().__init__(host, f"in use by {owner.description}", hint)
        self.owner = owner


def lock_error(alias: str, output: str) -> HostError:
    """Return the error for the output of a `job.sh watch` that got no lock; InUseError if another run has it."""
    status, _, rest = output.strip().partition(" ")
    if status == "busy" and (owners := parse_owners(rest.encode())):
        return InUseError(alias, owners[0])
    return HostError(alias, f"its lock cannot be taken: {rest or output}", "set `lock` for this host in the hosts file")
