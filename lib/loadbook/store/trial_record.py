"""trial.json: conditions of one trial, its status, and the sha256 of every file in its folder.

Conditions are read only from this record; names of folders have no meaning. It is written last into a temporary folder
that one rename publishes, so a trial is complete or absent. Only here are times of several hosts compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from loadbook.core.errors import DataError
from loadbook.store.atomic import move_folder, write_atomic

SCHEMA_VERSION = 1  # version of the format of records and tables
Status = Literal["ok", "partial", "invalid", "tool_failed", "timeout", "lost", "cancelled"]
SearchPhase = Literal["exploration", "search", "start"]
RECORD_NAME = "trial.json"
SLICE_SERIES, PIECE_SERIES = "slice", "piece"  # series of the table samples: slices, and pieces of long slices
# the same of the probes of a search for capacity
PROBE_SERIES: dict[SearchPhase, str] = {"exploration": "exploration", "search": "probe", "start": "start"}
RESTORE_HINT = "restore it from a copy of the run; loadbook verify STUDY names every file that is missing or changed"


def _check_inside(name: str) -> str:
    if name.startswith("/") or "\0" in name or ".." in name.split("/"):
        raise ValueError(f"{name!r} leads out of the trial's folder")
    return name


# path of a file in the trial's folder; checked, since a record may come from somebody else
RelativeFile = Annotated[str, AfterValidator(_check_inside)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FileRecord(_Record):
    """Size in bytes and sha256 (hex) of one file of the trial."""

    size: int
    sha256: str


class DriverRecord(_Record):
    """One load generator process; times are epoch seconds, by its host's clock and by the controller's.

    `rc` is the exit code; None if it left none.
    """

    host: str
    argv: list[str]
    rc: int | None
    started_host: float | None = None
    ended_host: float | None = None
    started_ours: float | None = None
    ended_ours: float | None = None
    stdout: RelativeFile = Field(description="file name in the trial folder")
    stderr: RelativeFile
    files: dict[str, RelativeFile] = Field(
        default_factory=dict, description="tool file name -> file name in the trial folder"
    )
    cut: dict[str, int] = Field(default_factory=dict, description="file of which the host had more -> its size there")
    source: str | None = Field(None, description="of an imported output: its path in the imported folder")
    slices: RelativeFile | None = Field(None, description="its slices of an interleaved block, if it is one of several")
    active_s: float | None = Field(None, description="seconds of its slices, if it is one of several drivers")


class ClockRecord(_Record):
    """Host's clock minus the controller's (s) before and after the load, each with its probe's round trip (s)."""

    offset_before_s: float
    rtt_before_s: float
    offset_after_s: float | None = None
    rtt_after_s: float | None = None


class MonitorRecord(_Record):
    """Output of one sampler: `file` in the trial folder, and the configured `interval_s`."""

    host: str
    role: str
    file: RelativeFile
    interval_s: float
    pids: dict[str, list[int]] = Field(default_factory=dict, description="process label -> pids watched")
    cpus: list[int] = Field(default_factory=list, description="CPU mask of the host as the sampler saw it")


class PolledRecord(_Record):
    """Output of a host's own monitor during the trial, times by the controller's clock; `problem` if it ended early."""

    host: str
    role: str
    source: str
    file: RelativeFile
    interval_s: float
    problem: str | None = None


class WorkersRecord(_Record):
    """Number of worker processes or threads of a service, and whether the server chose it, not the study."""

    count: int
    setting: str = Field(description="variable that sets their number")
    automatic: bool


class ServiceRecord(_Record):
    """One service under test, and the evidence that it ran with the configuration of the treatment."""

    host: str
    role: str
    service: str
    mode: Literal["managed", "system"] = Field("managed", description="a process of our own, or the host's own server")
    version: str | None = None
    config_sha256: str
    live: bool | None = Field(None, description="did the live process answer with this configuration's id?")
    live_evidence: str | None = None
    listens: str | None = Field(None, description="address and port that the load, or its balancer, sends requests to")
    backlog: int | None = Field(None, description="length of its accept queue that its files ask for")
    pids: list[int] = Field(default_factory=list)
    config_files: list[RelativeFile] = Field(
        default_factory=list, description="rendered files kept in the trial folder"
    )
    effective: RelativeFile | None = Field(None, description="the service's own dump of its configuration, file name")
    cpus: list[int] = Field(default_factory=list)
    workers: WorkersRecord | None = Field(None, description="its workers as they came up, where they can be counted")
    counters_before: dict[str, float] = Field(default_factory=dict, description="counted since its start, by name")
    counters_after: dict[str, float] = Field(default_factory=dict, description="the same when the load was over")
    cpu_s: float | None = Field(None, description="CPU seconds of its processes during the load, warm-up not included")
    idle_cpu_share: float | None = Field(None, description="CPUs' worth that it used just before the load, unasked")
    warnings: list[str] = Field(default_factory=list, description="warnings in its log, the first different ones")


class ResponseRecord(_Record):
    """Response to a request for the page, sent from the driver: HTTP status; size (bytes) and sha256 of its body."""

    status: int
    bytes: int
    sha256: str
    server: str | None = Field(None, description="its Server header")


class InterleavedRecord(_Record):
    """Slices of one arm of an interleaved block: slice and gap as planned, active time as measured (s).

    `slices` is the file with start and end of every slice (seconds by the driver's monotonic clock), of several drivers
    that of the first; `beside` lists the treatments that ran in the same block, in the order of their arms.
    """

    arm: int
    beside: list[str]
    slice_s: float
    gap_s: float
    slices: RelativeFile
    active_s: float | None = None
    late_share: float | None = Field(None, description="share of its slices that lasted 1.5 times as long as planned")
    latency_s: float | None = Field(None, description="mean latency of the slowest arm, where measured in this block")
    outside_cpu_s: float | None = Field(
        None, description="CPU seconds of its services outside its slices and gaps; null if not known"
    )
    apart_share: float | None = Field(
        None, description="share of its slices in which not all drivers put load on it; null for one driver"
    )


class SharedRecord(_Record):
    """Requests of one arm of a shared block, whose arms have one load generator on each driver.

    `beside` lists the treatments of the block in the order of their arms. `rate_per_s` is the rate of the arm while it
    is under load, over all drivers. The file `schedule` of each driver has the turns of all arms.
    """

    arm: int
    beside: list[str]
    slice_s: float | None = Field(description="length of a slice (s); null if every request goes to another arm")
    rate_per_s: float
    active_s: float = Field(description="seconds in which the arm was under load: its slices, or all the time")


class ProbeRecord(_Record):
    """One probe of a search for capacity: a load at a constant rate from a fresh service.

    `share_within` is the share (0 to 1) of the offered requests that were answered without error within the limit.
    `margin` is the natural logarithm of the limit over the time in which the objective's share of the requests (such
    as 99 %) was answered; it is negative if the objective was missed. `missed` is what was missed: latency, errors,
    rate, or server if that died; null if the objective was met. All three are null for a probe that does not count.
    """

    folder: RelativeFile
    phase: SearchPhase
    rate_per_s: float
    status: Status
    reason: str | None = None
    share_within: float | None = None
    margin: float | None = None
    missed: Literal["latency", "errors", "rate", "server"] | None = None

    @property
    def counts(self) -> bool:
        """Return whether the probe has a result: whether it is known if the objective was met."""
        return self.margin is not None


class CapacityRecord(_Record):
    """Search for the capacity of one treatment in one block, or one start at a rate to certify.

    The objective: at least the `share` of the requests is answered within `within_s` seconds, and at most the share
    `errors` of them fails (both from 0 to 1).

    The other fields of the trial's record are those of the probe at capacity: the one of the highest rate that met the
    objective; if none did, the one of the lowest rate. `capacity_per_s` follows from the margins of the probes
    of the search, and is null without any.
    """

    within_s: float
    share: float
    errors: float
    metric: str
    certified_share: float | None = Field(None, description="share of starts to be certified; null for a search")
    probes: list[ProbeRecord] = Field(default_factory=list, description="in order of execution")
    capacity_per_s: float | None = None

    @property
    def is_search(self) -> bool:
        """Return whether this is a search, in which each rate follows from earlier probes, not one given rate."""
        return self.certified_share is None


class TrialRecord(_Record):
    """One attempt at one trial: conditions, status, and all files.

    `factors` maps factor to level, `clocks` and `boot_ids` host to its value, `files` a path in the trial's folder to
    its size and sha256. `block`, `slot` (place in the whole run) and `attempt` count from 1.
    """

    schema_version: int = SCHEMA_VERSION
    study: str
    run: str
    trial: str
    treatment: str
    factors: dict[str, str]
    block: int
    slot: int
    attempt: int
    execution: str | None = Field(None, description="that of its block; null in records of earlier versions")
    status: Status
    reason: str | None = None
    started: float | None = Field(None, description="epoch seconds, our clock")
    duration_s: float | None = Field(None, description="whole trial, reset to collection, our monotonic clock")
    phases_s: dict[str, float] = Field(default_factory=dict, description="seconds by phase, in order")
    tool: str
    tool_version: str | None = None
    workload: dict[str, Any]
    window: tuple[float, float] | None = Field(None, description="every driver measured; epoch seconds, our clock")
    start_skew_s: float | None = Field(None, description="between the first and the last of several drivers' starts")
    drivers: list[DriverRecord] = Field(default_factory=list)
    services: list[ServiceRecord] = Field(default_factory=list)
    monitors: list[MonitorRecord] = Field(default_factory=list)
    polled: list[PolledRecord] = Field(default_factory=list)
    clocks: dict[str, ClockRecord] = Field(default_factory=dict)
    boot_ids: dict[str, str] = Field(default_factory=dict)
    response_before: ResponseRecord | None = None
    response_after: ResponseRecord | None = None
    changes: dict[str, dict[str, str | float]] = Field(
        default_factory=dict, description="host -> what was changed of it for this trial, and put back"
    )
    reset: dict[str, dict[str, float]] = Field(default_factory=dict, description="host -> state before the trial")
    other_runs: dict[str, list[str]] = Field(
        default_factory=dict, description="host -> other runs of loadbook on its machine before the trial"
    )
    reconnects: int = 0
    interleaved: InterleavedRecord | None = Field(None, description="None: no trial of an interleaved block")
    shared: SharedRecord | None = Field(None, description="None: no trial of a shared block")
    capacity: CapacityRecord | None = Field(None, description="the search for capacity, if the study asks for one")
    files: dict[RelativeFile, FileRecord] = Field(default_factory=dict)


def sha256_file(path: Path) -> str:
    """Return the hex sha256 of a file, which is read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def seal_trial(folder: Path, record: TrialRecord) -> TrialRecord:
    """Write trial.json with size and sha256 of every other file in `folder`, and return the completed record.

    `record` itself is not changed.
    """
    own = folder / RECORD_NAME
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p != own)
    files = {n: FileRecord(size=(folder / n).stat().st_size, sha256=sha256_file(folder / n)) for n in names}
    sealed = record.model_copy(update={"files": files})
    write_atomic(folder / RECORD_NAME, (sealed.model_dump_json(indent=1) + "\n").encode())
    return sealed


def publish_trial(staged: Path, final: Path) -> None:
    """Rename a completed folder to its final name; DataError if that exists already."""
    if final.exists():
        raise DataError(f"{final} is already there", "a published trial is never overwritten")
    move_folder(staged, final)


def read_trial(folder: Path) -> TrialRecord:
    """Read and validate a trial's record; DataError names the file if it is missing or invalid."""
    path = folder / RECORD_NAME
    try:
        return TrialRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path} is not there", RESTORE_HINT) from None
    except (ValidationError, ValueError) as error:
        raise DataError(f"{path} is not a trial record: {str(error).splitlines()[0]}", "loadbook verify") from error


def changed_files(folder: Path, record: TrialRecord) -> list[str]:
    """Return the names of files of the trial that are missing or no longer match their sha256."""

    def is_changed(path: Path, file: FileRecord) -> bool:
        return not path.is_file() or path.stat().st_size != file.size or sha256_file(path) != file.sha256

    return [name for name, file in record.files.items() if is_changed(folder / name, file)]


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, completely or not at all."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # lone surrogates, which a notebook may contain, cannot be encoded as UTF-8; JSON can escape them
    write_atomic(path, text.encode(errors="backslashreplace"))


def read_json(path: Path) -> Any:
    """Read a JSON file of a run; DataError if it is missing or truncated."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path} is not there", RESTORE_HINT) from None
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}", RESTORE_HINT) from error


class MeasurementSpans(NamedTuple):
    """Start and end of every driver's measurement by host, epoch seconds on the controller's clock."""

    by_host: Mapping[str, tuple[float, float]]

    @property
    def window(self) -> tuple[float, float] | None:
        """Return start and end of the time in which all drivers were measuring; None if there is none."""
        opened, closed = max(start for start, _ in self.by_host.values()), min(end for _, end in self.by_host.values())
        return (opened, closed) if opened < closed else None

    @property
    def full_span(self) -> tuple[float, float]:
        """Return the first start and the last end."""
        return min(start for start, _ in self.by_host.values()), max(end for _, end in self.by_host.values())

    @property
    def start_skew_s(self) -> float:
        """Return the seconds between the first and the last start."""
        starts = [start for start, _ in self.by_host.values()]
        return max(starts) - min(starts)

    @property
    def non_overlap_share(self) -> float:
        """Return the share (0 to 1) of the full span in which not all drivers were measuring."""
        length = self.full_span[1] - self.full_span[0]
        together = self.window[1] - self.window[0] if self.window else 0.0
        return 1 - together / length if length > 0 else 0.0


def measurement_spans(drivers: Sequence[DriverRecord], clocks: Mapping[str, ClockRecord]) -> MeasurementSpans | None:
    """Return when the drivers measured; None if this is not known of all of them."""
    spans = {
        d.host: (d.started_host - clocks[d.host].offset_before_s, d.ended_host - clocks[d.host].offset_before_s)
        for d in drivers
        if d.started_host is not None and d.ended_host is not None and d.host in clocks
    }
    return MeasurementSpans(spans) if spans and len(spans) == len(drivers) else None


def window_fields(drivers: Sequence[DriverRecord], clocks: Mapping[str, ClockRecord]) -> dict[str, Any]:
    """Return the fields of a trial's record that follow from its drivers' times: `window` and `start_skew_s`.

    Either is None if it is not known; `start_skew_s` is also None for a single driver.
    """
    spans = measurement_spans(drivers, clocks)
    skew_s = round(spans.start_skew_s, 6) if spans and len(drivers) > 1 else None
    return {"window": spans.window if spans else None, "start_skew_s": skew_s}


def clock_error_s(hosts: Iterable[str], clocks: Mapping[str, ClockRecord]) -> float:
    """Return the largest error (s) of the difference of two hosts' corrected clocks: half of each round trip.

    Of several hosts, the two with the longest round trips count. It is 0 for a single host. `clocks` is keyed by
    host.
    """
    round_trips = sorted(clocks[host].rtt_before_s for host in hosts if host in clocks)
    return sum(round_trips[-2:]) / 2 if len(round_trips) > 1 else 0.0
