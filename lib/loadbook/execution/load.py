"""Load jobs of one trial on its drivers, and the trial's status from their outputs.

The warm-up is a separate process before the measurement, so that reports contain the measurement only; the request log
of h2load (`ingestion.request_tables`) and host metrics (t_s < 0) contain both. The status cannot be taken from a
generator's exit code: wrk, ab and httperf end with 0 even if every response was an error. Validity rules that
need host metrics or other trials are applied at ingest.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from loadbook.core import clock
from loadbook.core.errors import CommandError, LostError, OversizeError, ToolError
from loadbook.hosts.host import Host, Job
from loadbook.hosts.jobs import WARMUP_SUFFIX
from loadbook.ingestion.trial_rows import Row, read_load_rows
from loadbook.services.instance import DEFAULT_LAUNCH, LaunchOptions
from loadbook.store.trial_record import ClockRecord, DriverRecord, Status, TrialRecord
from loadbook.study.limits import ValidityLimits
from loadbook.study.workload import Workload
from loadbook.tools.base import MAX_REPORT_BYTES, Target, Tool
from loadbook.validity.rules import check_trial

# validity rules that need only the generators' outputs and can make a trial invalid
OUTPUT_RULES = (
    "zero_work", "error_responses", "socket_errors", "driver_limits", "ports_exhausted", "not_http", "zero_bytes"
)  # fmt: skip
MAX_STDERR_CHARS = 200


class TrialOutcome(NamedTuple):
    """Status of a trial, and its reason."""

    status: Status
    reason: str


def assess_outputs(
    folder: Path, record: TrialRecord, thresholds: ValidityLimits, rules: Collection[str] = OUTPUT_RULES
) -> TrialOutcome | None:
    """Return status and reason if the outputs of the load generators show a problem, else None.

    `folder` is the trial's folder; of the validity rules, only those named in `rules` are applied.

    The status is `tool_failed` for output in an unknown or incomplete format, `invalid` for more errors than the study
    allows, and `partial` for an incomplete request log.
    """
    try:
        rows = read_load_rows(folder, record)
    except Exception as error:  # a bug in a reader must not end the run; the files can be read again later
        return TrialOutcome("tool_failed", f"{record.tool}: its output cannot be read: {type(error).__name__}: {error}")
    if exhausted := [p for p in rows.problems if p["name"] == "ports_exhausted"]:
        return TrialOutcome("invalid", _problems_text(exhausted))
    failed = [f"host {d.host}: {record.tool} {_exit_text(d.rc, folder / d.stderr)}" for d in record.drivers if d.rc]
    if failed or any(driver.rc is None for driver in record.drivers):
        return TrialOutcome("tool_failed", "; ".join(failed) or f"{record.tool} left no exit code")
    if unreadable := [p for p in rows.problems if p["name"] == "unreadable-output"]:
        return _unreadable_outcome(folder, unreadable)
    hits = check_trial(rows.record, rows.measurements, (), rows.doubts, thresholds)
    if messages := [hit.message for hit in hits if hit.name in rules and hit.level == "invalid"]:
        return TrialOutcome("invalid", " ".join(messages))
    if not rows.rejected:
        return None
    reasons = "; ".join(message for name, message in rows.doubts if name in rows.rejected)
    return TrialOutcome("partial", f"the file of requests is not whole, {rows.rejected.total()} rejected: {reasons}")


def _exit_text(code: int, stderr: Path) -> str:
    """Return a text on how a load generator ended (exit code or signal), with the last line of its stderr."""
    try:
        with stderr.open("rb") as file:
            file.seek(max(0, stderr.stat().st_size - 10 * MAX_STDERR_CHARS))
            text = file.read().decode(errors="replace").strip()
    except OSError:
        text = ""
    suffix = f": {text.splitlines()[-1][:MAX_STDERR_CHARS]}" if text else ""
    if code <= 128:
        return f"ended with exit code {code}{suffix}"
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        name = "unknown"
    memory = ", as the kernel does when memory runs out" if name == "SIGKILL" else ""
    return f"was killed by signal {code - 128} ({name}{memory}): exit code {code}{suffix}"


def _unreadable_outcome(folder: Path, problems: list[Row]) -> TrialOutcome:
    """Return the outcome of unreadable outputs: `partial` if only rows of request logs are bad, else `tool_failed`."""
    rows = [p for p in problems if not p["file"].startswith("stdout-") and (p["line"] or 0) > 1]
    if len(rows) < len(problems):
        return TrialOutcome("tool_failed", _problems_text(problems))
    lost = 0
    for name in {p["file"] for p in rows}:
        with (folder / name).open("rb") as file:
            lost += sum(block.count(b"\n") for block in iter(partial(file.read, 1 << 20), b""))
    return TrialOutcome("partial", f"{_problems_text(problems)}; none of {lost:,} lines was counted")


def _problems_text(problems: Iterable[Row]) -> str:
    return "; ".join(f"host {problem['host']}: {problem['message']}" for problem in problems)


# seconds beyond the planned duration, including the tool's own time-outs, after which a tool counts as hung
GRACE_S = 10.0
# the lease is longer than our time limit, so that we stop a hung tool, and record the reason, before the host does
LEASE_EXTRA_S = 15.0
FIRST_STEP = 1
# several drivers start measuring at the same instant, this long after their jobs are started (over the network)
LEAD_S, LEAD_ROUND_TRIPS, MAX_LEAD_S = 0.5, 20, 5.0
WARMUP_SPARE_S = 2
# runs "$@" for $0 seconds in the job's process group (timeout(1) would leave that group, and survive the job's end);
# its children are ended, too, since JMeter's start script does not exec, so that its JVM would continue the load
TIMED_WARMUP_SCRIPT = """"$@" & pid=$!; sleep "$0"; children=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
kill -s TERM "$pid" $children; wait "$pid"; exit 0"""
STOP_GRACE_S = 5.0
MAX_FILE_BYTES = 2_000_000_000  # limit for a file written by a tool; JMeter writes 90 bytes per request


@dataclass
class LoadJobs:
    """The load jobs of one trial: `name` on every driver, each with its share of the workload.

    `started`: driver -> the controller's wall clock (epoch s) and monotonic clock at the job's start. `start_times`:
    driver -> instant by its own clock (epoch s) at which the measurement starts, if there are several drivers. `begun`:
    drivers on which the warm-up or the measurement was started.
    `warmup_first`: the warm-up is a job of its own, so that something can be read between it and the measurement.
    `shares`: driver -> its share of the workload. `lead_s`: seconds added before a common start, in which the jobs of
    all drivers are started; 0 for a single driver.
    """

    tool: Tool
    shares: Mapping[str, Workload]
    target: Target
    name: str
    launch: LaunchOptions = DEFAULT_LAUNCH
    warmup_first: bool = False
    started: dict[str, tuple[float, float]] = field(default_factory=dict)
    start_times: dict[str, float] = field(default_factory=dict)
    lead_s: float = 0.0
    begun: set[str] = field(default_factory=set)
    _cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def workload(self) -> Workload:
        """The workload of the first driver; warm-up and duration are the same for all drivers."""
        return next(iter(self.shares.values()))

    def steps_on(self, alias: str) -> tuple[tuple[str, ...], ...]:
        """Return the argument lists of warm-up (if there is one) and measurement on a driver.

        Raises
        ------
        ToolError : the tool cannot generate this driver's share of the load.
        """
        share = self.shares[alias]
        try:
            measurement = self.launch.wrap(tuple(self.tool.command(share, self.target, share.duration_s)))
            if self.warmup_first or not share.warmup_s:
                return (measurement,)
            return (self.warmup_step(share), measurement)
        except ToolError as error:
            if len(self.shares) == 1:
                raise
            part = f"{share.connections} connections" if share.rate_per_s is None else f"{share.rate_per_s:g} a second"
            raise ToolError(f"host {alias}, whose share is {part}: {error.message}", error.hint) from error

    def warmup_step(self, share: Workload) -> tuple[str, ...]:
        """Return the argument list of a driver's warm-up.

        A shell ends the tool after `warmup_s`; it is started for longer, since some tools accept whole seconds only.
        """
        longer_s = math.ceil(share.warmup_s) + WARMUP_SPARE_S
        longer = self.tool.command(share.with_duration(longer_s, 0), self.target, longer_s)
        return self.launch.wrap(("/bin/sh", "-c", TIMED_WARMUP_SCRIPT, f"{share.warmup_s:g}", *longer))

    @property
    def warmup_name(self) -> str:
        """Name of the warm-up's own job."""
        return f"{self.name}{WARMUP_SUFFIX}"

    def warm_up(self, host: Host) -> None:
        """Run the warm-up's own job on one driver until it ends."""
        share = self.shares[host.alias]
        timeout_s, begun_s = share.warmup_s + WARMUP_SPARE_S + GRACE_S, clock.monotonic()
        files = dict(self.tool.extra_files(share))
        self.begun.add(host.alias)
        host.start(Job(self.warmup_name, (self.warmup_step(share),), timeout_s + LEASE_EXTRA_S, files))
        if not clock.wait(self._cancelled, share.warmup_s if host.live else 0.0):
            host.wait(self.warmup_name, timeout_s=max(1.0, begun_s + timeout_s - clock.monotonic()))

    @property
    def _warmup_s(self) -> float:
        """Seconds of the warm-up in the measurement's job."""
        return 0.0 if self.warmup_first else self.workload.warmup_s

    @property
    def phase(self) -> str:
        """Return what the measurement's job does: "warm-up and load", or "load" if it contains no warm-up."""
        return "warm-up and load" if self._warmup_s else "load"

    @property
    def planned_s(self) -> float:
        """Planned seconds from the jobs' start to the end of the measurement."""
        return self.lead_s + self._warmup_s + self.workload.duration_s

    @property
    def timeout_s(self) -> float:
        """Seconds after its start at which the job counts as hung."""
        lead_s = MAX_LEAD_S if len(self.shares) > 1 else 0.0
        return lead_s + self.workload.warmup_s + self.workload.hang_limit_s + self.tool.extra_timeout_s + GRACE_S

    def schedule_start(self, clocks: Mapping[str, ClockRecord]) -> None:
        """Set `lead_s` and `start_times`, late enough to start the jobs of all drivers before (`common_start`)."""
        self.lead_s, self.start_times = common_start(self.shares, clocks, self._warmup_s)

    def start(self, host: Host) -> int:
        """Start the job on one driver and return its leader's process id."""
        job = self.job_on(host.alias)
        self.begun.add(host.alias)
        self.started[host.alias] = clock.now(), clock.monotonic()
        return host.start(job)

    def job_on(self, alias: str) -> Job:
        """Return the job of a driver, with the tool's files and the steps warm-up (if any) and measurement."""
        files = dict(self.tool.extra_files(self.shares[alias]))
        lease_s = self.timeout_s + LEASE_EXTRA_S
        return Job(self.name, self.steps_on(alias), lease_s, files, last_step_at=self.start_times.get(alias))

    def wait(self, host: Host) -> None:
        """Sleep for the planned duration without contacting the host, then wait for the job's end."""
        begun = self.started[host.alias][1]
        planned_s = self.planned_s if host.live else 0.0
        if clock.wait(self._cancelled, max(0.0, begun + planned_s - clock.monotonic())):
            return
        host.wait(self.name, timeout_s=max(1.0, begun + self.timeout_s - clock.monotonic()))

    def cancel(self) -> None:
        """End all calls of `wait`, in any thread."""
        self._cancelled.set()

    def end(self, host: Host) -> None:
        """End the jobs on one driver and remove their files there."""
        for name in (self.warmup_name, self.name) if self.warmup_first else (self.name,):
            remove_job(host, name, STOP_GRACE_S)

    def collect(self, host: Host, folder: Path) -> DriverRecord:
        """Copy the driver's outputs into `folder` byte for byte and return its record."""
        steps, share = self.steps_on(host.alias), self.shares[host.alias]
        ended, last, jobs = clock.now(), FIRST_STEP + len(steps) - 1, f"{host.workdir}/jobs/{self.name}"
        check_load_ended(host, jobs, last)
        record = DriverRecord(
            host=host.alias,
            argv=list(steps[-1]),
            rc=int(code) if (code := host.get(f"{jobs}/rc.{last}", max_bytes=100).strip()) else None,
            started_ours=self.started[host.alias][0],
            ended_ours=ended,
            stdout=f"stdout-{host.alias}",
            stderr=f"stderr-{host.alias}",
        )
        record.started_host, record.ended_host = read_step_times(host, f"{jobs}/times.{last}")
        outputs = [("", jobs, last)]
        if self.workload.warmup_s:
            warmup_jobs = f"{host.workdir}/jobs/{self.warmup_name}" if self.warmup_first else jobs
            outputs.append(("warmup-", warmup_jobs, FIRST_STEP))
        for prefix, job, step in outputs:
            for stream in ("stdout", "stderr"):
                name = f"{prefix}{stream}-{host.alias}"
                record.cut |= fetch_truncated(host, f"{job}/{stream}.{step}", folder / name, MAX_REPORT_BYTES)
        fetch_tool_files(host, jobs, self.tool.expected_files(share), folder, record)
        return record


def common_start(
    drivers: Collection[str], clocks: Mapping[str, ClockRecord], after_s: float = 0.0
) -> tuple[float, dict[str, float]]:
    """Return a lead (s), and driver -> instant (epoch s, by its own clock) at which all drivers start measuring.

    The instant is the lead plus `after_s` seconds from now; the lead is the time to start the jobs on all drivers.
    For a single driver, which starts at once, the result is (0.0, {}).
    """
    if len(drivers) == 1:
        return 0.0, {}
    lead_s = min(LEAD_S + LEAD_ROUND_TRIPS * max(clocks[alias].rtt_before_s for alias in drivers), MAX_LEAD_S)
    at = clock.now() + lead_s + after_s
    return lead_s, {alias: at + clocks[alias].offset_before_s for alias in drivers}


def check_load_ended(host: Host, folder: str, steps: int) -> None:
    """Raise LostError unless the last of a load job's steps has ended by itself.

    `folder` is the job's folder on the host, `steps` the number of the last step, from 1.
    """
    if not host.exists(f"{folder}/rc.{steps}"):
        raise LostError(host.alias, "the load was ended before its measurement was over", "was the host stopped?")


def fetch_tool_files(host: Host, source: str, names: Iterable[str], folder: Path, record: DriverRecord) -> None:
    """Copy the files that a load generator wrote to `source` into `folder`, and add them to the driver's record.

    `names` are paths below `source`, a folder on the host; missing files are left out.
    """
    for name in names:
        if host.exists(f"{source}/{name}"):
            local_name = f"{host.alias}-{Path(name).name}"
            record.cut |= fetch_truncated(host, f"{source}/{name}", folder / local_name, MAX_FILE_BYTES)
            record.files[name] = local_name


def truncated_outputs(folder: Path, drivers: Iterable[DriverRecord]) -> str:
    """Return a text that lists outputs cut at their size limit; "" if there are none."""
    names = [(driver.host, name, size) for driver in drivers for name, size in driver.cut.items()]
    return "; ".join(
        f"host {host}: {name} has {size:,} bytes: only the first {(folder / name).stat().st_size:,} are kept"
        for host, name, size in names
    )


def remove_job_folder(host: Host, name: str) -> None:
    """Remove the folder of a job that has ended."""
    host.remove(f"{host.workdir}/jobs/{name}")


def remove_job(host: Host, name: str, grace_s: float) -> None:
    """Stop a job (TERM, after `grace_s` seconds KILL) and remove its folder."""
    host.stop(name, grace_s=grace_s)
    remove_job_folder(host, name)


def fetch_truncated(host: Host, path: str, local: Path, max_bytes: int) -> dict[str, int]:
    """Copy a file, or its first `max_bytes` bytes; return {local name: full size in bytes} if it was cut, else {}."""
    try:
        host.fetch(path, local, max_bytes=max_bytes)
    except OversizeError as error:
        return {local.name: error.size_bytes}
    return {}


def read_step_times(host: Host, path: str) -> tuple[float, float]:
    """Return start and end (epoch seconds, the host's clock) of a job's step."""
    try:
        started, ended = (float(word) for word in host.get(path, max_bytes=200).split())
    except ValueError as error:
        raise CommandError(host.alias, f"{path} does not hold a start and an end") from error
    return started, ended
