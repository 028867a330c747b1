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
from loadbook.records.layout import check_name

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
NAME_TAKEN = 9


@cache
def launcher() -> tuple[str, bytes]:
    """Return the name (with a digest, so that versions do not mix) and the text of job.sh, with lock.sh before it."""
    text = b"".join(files("loadbook.hosts").joinpath(name).read_bytes() for name in ("lock.sh", "job.sh"))
    return f"bin/job-{hashlib.sha256(text).hexdigest()[:12]}.sh", text


def folder(name: str) -> str:
    """Return a job's folder below the work folder; UsageError for a name that is not one."""
    return f"jobs/{check_name('job', name)}"


def prepare_text(job: Job, session: str) -> str:
    """Return shell text that makes the job's folder; exit code NAME_TAKEN if it is already there."""
    where = shlex.quote(folder(job.name))
    lines = [f"mkdir -p jobs && mkdir {where} 2>/dev/null || exit {NAME_TAKEN}"]
    for number, step in enumerate(job.steps, 1):
        lines.append(f"printf %s {shlex.quote(_step_text(step, job.env))} >{where}/cmd.{number} || exit 1")
    if job.last_at is not None:
        lines.append(f"echo {job.last_at:.3f} >{where}/at.{len(job.steps)} || exit 1")
    if job.ends_with_us:
        lines.append(f"echo {session} >{where}/session || exit 1")
    return "\n".join(lines)


def launch_text(job: Job, script: str) -> str:
    """Return shell text that starts a prepared job by `script` (job.sh there), detached, and prints its pid."""
    where = shlex.quote(folder(job.name))
    run = f"setsid /bin/sh {shlex.quote(script)} run {where} {math.ceil(job.lease_s)}"
    return f"{run} </dev/null >/dev/null 2>{where}/log & echo $!"


def _step_text(step: tuple[str, ...], env: Mapping[str, str]) -> str:
    bad = [name for name in env if not _VARIABLE.match(name)]
    if bad:
        raise UsageError(f"{bad[0]!r} is not the name of an environment variable")
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())
    return f"{exports}exec {sh_join(step)}\n"


def read_state(answer: bytes) -> JobState:
    """Read what `job.sh state` prints: pid and rc, "-" where not known, and 1 while running."""
    pid, rc, running = (None if f == "-" else int(f) for f in answer.split(b"\n")[0].decode().split())
    return JobState(pid, rc, running == 1)
