"""The sampler: a job that tells what a host did during a trial and needs nothing installed there."""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib.resources import files

from loadbook.hosts.host import Job
from loadbook.records.layout import check_name


def sampler_job(name: str, *, interval_s: float, limit_s: float, processes: Iterable[tuple[str, str]] = ()) -> Job:
    """Return the job that samples for at most `limit_s` seconds; its ``stdout.1`` is what `traces.sampler` reads.

    `processes` pairs a label with a file (absolute, or relative to the job's folder) that holds a process id, such as
    ``../<job>/step``, which names the process that a job's current step runs; its children are watched as well.
    Several may have one label.
    """
    text = files("loadbook.hosts").joinpath("sampler.sh").read_text(encoding="utf-8")
    count = math.ceil(limit_s / interval_s) + 1
    process_args = [f"{check_name('process', label)}={path}" for label, path in processes]
    step = ("/bin/sh", "-c", text, "sampler", f"{interval_s:g}", str(count), *process_args)
    return Job(name, (step,), lease_s=limit_s * 1.5 + 5)
