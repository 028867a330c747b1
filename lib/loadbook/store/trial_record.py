"""trial.json: conditions of one trial, how it ended, and the sha256 of every file beside it.

Conditions are read only from here; folder names have no meaning. The record is written last into a staged folder,
which one rename publishes: a trial is there whole or not at all. Times of several hosts are compared only here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from loadbook.core.errors import DataError
from loadbook.store.atomic import move_folder, write_atomic

SCHEMA_VERSION = 1  # of records and tables
Status = Literal["ok", "partial", "invalid", "tool_failed", "timeout", "lost", "cancelled"]
RECORD_NAME = "trial.json"
RESTORE_HINT = "restore it from a copy of the run; loadbook verify STUDY names every file that is missing or changed"


def _check_inside(name: str) -> str:
    if name.startswith("/") or "\0" in name or ".." in name.split("/"):
        raise ValueError(f"{name!r} leads out of the trial's folder")
    return name


# a file of a trial, by its path in the trial's folder: a record may come from somebody else
RelativeFile = Annotated[str, AfterValidator(_check_inside)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FileRecord(_Record):
    """Size in bytes and sha256 (hex) of one file of the trial."""

    size: int
    sha256: str


class DriverRecord(_Record):
    """One load generator process; times are epoch seconds by its host's clock and by the controller's."""

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


class ClockRecord(_Record):
    """Host clock minus ours, seconds, with the round trip (s) of the best probe; before and after the load."""

    offset_before_s: float
    rtt_before_s: float
    offset_after_s: float | None = None
    rtt_after_s: float | None = None


class MonitorRecord(_Record):
    """One sampler's output; `file` in the trial folder, `interval_s` as asked."""

    host: str
    role: str
    file: RelativeFile
    interval_s: float
    pids: dict[str, list[int]] = Field(default_factory=dict, description="process label -> pids watched")
    cpus: list[int] = Field(default_factory=list, description="CPU mask of the host as the sampler saw it")


class PolledRecord(_Record):
    """Answers of a host's own monitor during the trial, times by our clock; `problem` is why it ended early."""

    host: str
    role: str
    source: str
    file: RelativeFile
    interval_s: float
    problem: str | None = None


class ServiceRecord(_Record):
    """One service under test: which configuration it was proven to run."""

    host: str
    role: str
    service: str
    mode: Literal["managed", "system"] = Field("managed", description="a process of our own, or the host's own server")
    version: str | None = None
    config_sha256: str
    live: bool | None = Field(None, description="did the live process answer with this configuration's id?")
    live_evidence: str | None = None
    pids: list[int] = Field(default_factory=list)
    config_files: list[RelativeFile] = Field(
        default_factory=list, description="rendered files kept in the trial folder"
    )
    effective: RelativeFile | None = Field(None, description="the service's own dump of its configuration, file name")
    cpus: list[int] = Field(default_factory=list)
    counters_before: dict[str, float] = Field(default_factory=dict, description="counted since its start, by name")
    counters_after: dict[str, float] = Field(default_factory=dict, description="the same when the load was over")
    cpu_s: float | None = Field(None, description="CPU seconds of its processes during the load, warm-up not included")
    idle_cpu_share: float | None = Field(None, description="CPUs' worth that it used just before the load, unasked")


class ResponseRecord(_Record):
    """Response to one request for the page, sent from the driver."""

    status: int
    bytes: int
    sha256: str
    server: str | None = Field(None, description="its Server header")


class InterleavedRecord(_Record):
    """How an arm of an interleaved block took turns: slice and gap as planned, active time as measured, seconds.

    `slices` is the file with start and end of every slice (seconds by the driver's monotonic clock); `beside` are the
    treatments that were up at the same time, in the order of their arms.
    """

    arm: int
    beside: list[str]
    slice_s: float
    gap_s: float
    slices: RelativeFile
    active_s: float | None = None
    late_share: float | None = Field(None, description="share of its slices that lasted 1.5 times as long as planned")
    latency_s: float | None = Field(None, description="mean latency of the slowest arm, where measured in this block")


class TrialRecord(_Record):
    """One attempt at one trial, whole."""

    schema_version: int = SCHEMA_VERSION
    study: str
    run: str
    trial: str
    treatment: str
    factors: dict[str, str]
    block: int
    slot: int
    attempt: int
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
    reconnects: int = 0
    interleaved: InterleavedRecord | None = Field(None, description="None: a plain trial, alone on its hosts")
    files: dict[RelativeFile, FileRecord] = Field(default_factory=dict)


def sha256_file(path: Path) -> str:
    """Return the hex sha256 of a file, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def seal_trial(folder: Path, record: TrialRecord) -> TrialRecord:
    """Hash every file in `folder` into `record`, write trial.json last, and return the sealed record."""
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.name != RECORD_NAME)
    files = {n: FileRecord(size=(folder / n).stat().st_size, sha256=sha256_file(folder / n)) for n in names}
    sealed = record.model_copy(update={"files": files})
    write_atomic(folder / RECORD_NAME, (sealed.model_dump_json(indent=1) + "\n").encode())
    return sealed


def publish_trial(staged: Path, final: Path) -> None:
    """Make a sealed folder appear under its final name by one rename; refuses to replace anything."""
    if final.exists():
        raise DataError(f"{final} is already there", "a published trial is never overwritten")
    move_folder(staged, final)


def read_trial(folder: Path) -> TrialRecord:
    """Read and validate a trial's record; anything else raises DataError naming the file."""
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
    """Write `value` as indented JSON, atomically."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # half a character of UTF-16, which a notebook may hold, has no bytes of its own but an escape in JSON
    write_atomic(path, text.encode(errors="backslashreplace"))


def read_json(path: Path) -> Any:
    """Read a JSON file of a run; a missing or truncated one raises DataError."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path} is not there", RESTORE_HINT) from None
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}", RESTORE_HINT) from error


class MeasurementSpans(NamedTuple):
    """Start and end of every driver's measurement by host, epoch seconds by our clock."""

    by_host: Mapping[str, tuple[float, float]]

    @property
    def window(self) -> tuple[float, float] | None:
        """Time in which every driver was measuring; None where there is none."""
        opened, closed = max(start for start, _ in self.by_host.values()), min(end for _, end in self.by_host.values())
        return (opened, closed) if opened < closed else None

    @property
    def full_span(self) -> tuple[float, float]:
        """Time from the first start to the last end."""
        return min(start for start, _ in self.by_host.values()), max(end for _, end in self.by_host.values())

    @property
    def start_skew_s(self) -> float:
        """Seconds between the first and the last start."""
        starts = [start for start, _ in self.by_host.values()]
        return max(starts) - min(starts)

    @property
    def non_overlap_share(self) -> float:
        """Share (0 to 1) of the whole in which not every driver was measuring."""
        length = self.full_span[1] - self.full_span[0]
        together = self.window[1] - self.window[0] if self.window else 0.0
        return 1 - together / length if length > 0 else 0.0


def measurement_spans(drivers: Sequence[DriverRecord], clocks: Mapping[str, ClockRecord]) -> MeasurementSpans | None:
    """Return when the drivers measured, None where it is not known of each."""
    spans = {
        d.host: (d.started_host - clocks[d.host].offset_before_s, d.ended_host - clocks[d.host].offset_before_s)
        for d in drivers
        if d.started_host is not None and d.ended_host is not None and d.host in clocks
    }
    return MeasurementSpans(spans) if spans and len(spans) == len(drivers) else None


def window_fields(drivers: Sequence[DriverRecord], clocks: Mapping[str, ClockRecord]) -> dict[str, Any]:
    """Return the fields of a trial's record that follow from its drivers' times: `window` and `start_skew_s`."""
    spans = measurement_spans(drivers, clocks)
    skew_s = round(spans.start_skew_s, 6) if spans and len(drivers) > 1 else None
    return {"window": spans.window if spans else None, "start_skew_s": skew_s}


def clock_error_s(record: TrialRecord) -> float:
    """Return the largest error (s) between corrected clocks of two hosts: half of each probe's round trip."""
    round_trips = sorted(record.clocks[d.host].rtt_before_s for d in record.drivers if d.host in record.clocks)
    return sum(round_trips[-2:]) / 2
