"""Detached jobs: the shell text that starts one, and the answers of job.sh."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from loadbook.core.errors import UsageError
from loadbook.hosts.host import Job, JobState
from loadbook.hosts.shell import sh_join
from loadbook.store.paths import check_name

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
NAME_TAKEN_RC = 9


@cache
def launcher_script() -> tuple[str, bytes]:
    """Return the name (with a digest, so that versions do not mix) and the text of job.sh, with lock.sh prepended."""
    text = b"".join(files("loadbook.hosts").joinpath(name).read_bytes() for name in ("lock.sh", "job.sh"))
    return f"bin/job-{hashlib.sha256(text).hexdigest()[:12]}.sh", text


def job_folder(name: str) -> str:
    """Return a job's folder below the work folder; UsageError for a name that is not one."""
    return f"jobs/{check_name('job', name)}"


def prepare_text(job: Job, session: str) -> str:
    """Return shell text that makes the job's folder; exit code NAME_TAKEN_RC if it is already there."""
    folder_arg = shlex.quote(job_folder(job.name))
    lines = [f"mkdir -p jobs && mkdir {folder_arg} 2>/dev/null || exit {NAME_TAKEN_RC}"]
    for number, step in enumerate(job.steps, 1):
        lines.append(f"printf %s {shlex.quote(_step_text(step, job.env))} >{folder_arg}/cmd.{number} || exit 1")
    if job.last_step_at is not None:
        lines.append(f"echo {job.last_step_at:.3f} >{folder_arg}/at.{len(job.steps)} || exit 1")
    if job.ends_with_session:
        lines.append(f"echo {session} >{folder_arg}/session || exit 1")
    return "\n".join(lines)


def launch_text(job: Job, script: str) -> str:
    """Return shell text that starts a prepared job by `script` (job.sh there), detached, and prints its pid."""
    folder_arg = shlex.quote(job_folder(job.name))
    command = f"setsid /bin/sh {shlex.quote(script)} run {folder_arg} {math.ceil(job.lease_s)}"
    return f"{command} </dev/null >/dev/null 2>{folder_arg}/log & echo $!"


def _step_text(step: tuple[str, ...], env: Mapping[str, str]) -> str:
    invalid = [name for name in env if not _VARIABLE.match(name)]
    if invalid:
        raise UsageError(f"{invalid[0]!r} is not the name of an environment variable")
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())
    return f"{exports}exec {sh_join(step)}\n"


def parse_state(output: bytes) -> JobState:
    """Read what `job.sh state` prints: pid and rc, "-" where not known, and 1 while running."""
    pid, rc, running = (None if f == "-" else int(f) for f in output.split(b"\n")[0].decode().split())
    return JobState(pid, rc, running == 1)
