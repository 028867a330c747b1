"""Load of one trial on its drivers: one detached job each, warm-up and measurement as its steps; then its outputs."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from loadbook.core.errors import CommandError, LostError
from loadbook.design.workload import Workload
from loadbook.hosts.host import Host, Job
from loadbook.records.manifest import DriverRecord
from loadbook.tools.base import Target, Tool

# A tool may run this much over its duration (time-outs of its own included) before it counts as hung.
GRACE_S = 10.0
# The lease outlives our own patience, so that a slow tool is stopped by us, with a reason, and not by the host.
LEASE_EXTRA_S = 15.0
FIRST_STEP = 1
WARMUP_SPARE_S = 2
# $0 seconds of "$@", in the job's own process group (timeout(1) would leave it, out of reach of the job's end)
_CUT = '"$@" & pid=$!; sleep "$0"; kill -s TERM "$pid"; wait "$pid"; exit 0'
STOP_GRACE_S = 2.0
MAX_OUTPUT_BYTES = 200_000_000


@dataclass
class Load:
    """The load jobs of one trial: `name` on every driver; `started` holds our clock (epoch s) and monotonic clock."""

    tool: Tool
    workload: Workload
    target: Target
    name: str
    started: dict[str, tuple[float, float]] = field(default_factory=dict)
    _cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def steps(self) -> tuple[tuple[str, ...], ...]:
        """Argument lists of warm-up (when there is one) and measurement; ToolError for what the tool cannot do."""
        measurement = tuple(self.tool.command(self.workload, self.target, self.workload.duration_s))
        return (self._warmup(), measurement) if self.workload.warmup_s else (measurement,)

    def _warmup(self) -> tuple[str, ...]:
        """Return the warm-up's command: cut off at its time, since some tools count in whole seconds only."""
        warmup_s = self.workload.warmup_s
        longer = self.tool.command(self.workload, self.target, math.ceil(warmup_s) + WARMUP_SPARE_S)
        return ("/bin/sh", "-c", _CUT, f"{warmup_s:g}", *longer)

    @property
    def planned_s(self) -> float:
        """Seconds that warm-up and measurement take when all goes well."""
        return self.workload.warmup_s + self.workload.duration_s

    @property
    def patience_s(self) -> float:
        """Seconds after its start at which the job counts as hung."""
        return self.planned_s + self.workload.timeout_s + GRACE_S

    def start(self, host: Host) -> int:
        """Start the job on one driver and return its leader's process id."""
        files = dict(self.tool.extra_files(self.workload))
        job = Job(self.name, self.steps, self.patience_s + LEASE_EXTRA_S, files)
        self.started[host.alias] = time.time(), time.monotonic()
        return host.start(job)

    def wait(self, host: Host) -> None:
        """Sleep through the planned time, asking nothing of anybody, then wait for the job's end."""
        begun = self.started[host.alias][1]
        planned_s = self.planned_s if host.live else 0.0
        if self._cancelled.wait(max(0.0, begun + planned_s - time.monotonic())):
            return
        host.wait(self.name, timeout_s=max(1.0, begun + self.patience_s - time.monotonic()))

    def cancel(self) -> None:
        """Wake whoever sleeps in `wait`."""
        self._cancelled.set()

    def end(self, host: Host) -> None:
        """End the job on one driver, whether it still runs or not, and remove what it left there."""
        host.stop(self.name, grace_s=STOP_GRACE_S)
        forget_job(host, self.name)

    def collect(self, host: Host, folder: Path) -> DriverRecord:
        """Copy the driver's outputs into `folder` byte for byte and return its record."""
        ended, last, jobs = time.time(), FIRST_STEP + len(self.steps) - 1, f"{host.workdir}/jobs/{self.name}"
        if not host.exists(f"{jobs}/rc.{last}"):
            raise LostError(host.alias, "the load was ended before its measurement was over", "was the host stopped?")
        record = DriverRecord(
            host=host.alias,
            argv=list(self.steps[-1]),
            rc=_code(host, f"{jobs}/rc.{last}"),
            started_ours=self.started[host.alias][0],
            ended_ours=ended,
            stdout=f"stdout-{host.alias}",
            stderr=f"stderr-{host.alias}",
        )
        record.started_host, record.ended_host = _times(host, f"{jobs}/times.{last}")
        for step, prefix in zip(range(last, FIRST_STEP - 1, -1), ("", "warmup-"), strict=False):
            for stream in ("stdout", "stderr"):
                _fetch(host, f"{jobs}/{stream}.{step}", folder / f"{prefix}{stream}-{host.alias}")
        for name in self.tool.expected_files(self.workload):
            if host.exists(f"{jobs}/{name}"):
                kept = f"{host.alias}-{Path(name).name}"
                _fetch(host, f"{jobs}/{name}", folder / kept)
                record.files[name] = kept
        return record


def forget_job(host: Host, name: str) -> None:
    """Remove the folder of a job that has ended."""
    host.remove(f"{host.workdir}/jobs/{name}")


def _fetch(host: Host, path: str, local: Path) -> None:
    host.fetch(path, local, max_bytes=MAX_OUTPUT_BYTES)


def _code(host: Host, path: str) -> int | None:
    text = host.get(path, max_bytes=100).strip()
    return int(text) if text else None


def _times(host: Host, path: str) -> tuple[float, float]:
    """Return start and end (epoch seconds, the host's clock) of a step."""
    try:
        started, ended = (float(word) for word in host.get(path, max_bytes=200).split())
    except ValueError as error:
        raise CommandError(host.alias, f"{path} does not hold a start and an end") from error
    return started, ended
