"""Metric files of hosts (sysstat, munin, RRD, node_exporter) that are added to a run, and their rows per trial."""

from __future__ import annotations

import shutil
import subprocess
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from loadbook import host_metrics
from loadbook.core.errors import DataError, UsageError
from loadbook.core.units import format_bytes, format_duration, join_words
from loadbook.host_metrics.base import Problem, Traces
from loadbook.store.atomic import hold_study_lock
from loadbook.store.ledger import AddedTraceFiles, store_added_files
from loadbook.store.paths import Layout, check_name
from loadbook.store.run_record import read_run_record
from loadbook.store.trial_record import TrialRecord, sha256_file

TIME_DIGITS = 4
POINT = ("metric", "item", "value", "unit")
Row = dict[str, Any]
FileStates = tuple[tuple[int, int], ...]


def trace_row(keys: Row, point: Mapping[str, Any], t_s: float) -> Row:
    """Return `keys` with the time and value of one point, `t_s` seconds after the start of the measurement.

    `point` has the keys metric, item, value and unit.
    """
    return keys | {"t_s": round(t_s, TIME_DIGITS)} | {name: point[name] for name in POINT}


class AddedFiles(NamedTuple):
    """Metric files that were added to a run; `raw` is the run's folder of raw files."""

    raw: Path = Path()
    added: tuple[AddedTraceFiles, ...] = ()

    def host_metric_rows(self, record: TrialRecord) -> Iterator[Row]:
        """Yield the rows within one trial, with times in seconds since the start of its measurement."""
        span = trial_span(record)
        opened = record.window[0] if record.window else record.started  # for imported trials the start of the trial
        if span is None or opened is None:
            return
        for added in self.added:
            clock = record.clocks.get(added.host)
            measured_s = clock.offset_before_s if clock else 0.0
            offset = measured_s if added.offset_s is None else added.offset_s
            keys = {"host": added.host, "role": added.role, "source": host_metrics.FORMATS[added.kind].source}
            times, points = _sorted_points(self.raw, added, _file_states(self.raw, added))
            first, last = bisect_left(times, span[0] + offset), bisect_right(times, span[1] + offset)
            for time_s, point in zip(times[first:last], points[first:last], strict=True):
                yield trace_row(keys, point, time_s - offset - opened)

    def problems(self, records: Sequence[TrialRecord]) -> Iterator[Row]:
        """Yield rows of the problems table: problems in the files, and files without a sample in any trial."""
        spans = [span for record in records if (span := trial_span(record))]
        for added in self.added:
            traces = _read_added(self.raw, added, _file_states(self.raw, added))
            for problem in traces.problems:
                yield _problem_row(added, problem)
            offset = added.offset_s or 0.0
            inside = (bisect_left(traces.times, a + offset) < bisect_right(traces.times, b + offset) for a, b in spans)
            if traces.times and not any(inside):
                yield _problem_row(added, Problem("outside", _no_overlap_text(traces, spans)))
            has_clock = any(added.host in record.clocks for record in records)
            if added.offset_s is None and not has_clock:
                message = f"the clock of host {added.host} was not compared with ours: taken as equal (--clock-offset)"
                yield _problem_row(added, Problem("clock_not_known", message))


def trial_span(record: TrialRecord) -> tuple[float, float] | None:
    """Return start and end of a trial (epoch s, the controller's clock); None if they are not known.

    If the trial's own times are not recorded, they are those of its measurement.
    """
    if record.started is not None and record.duration_s is not None:
        return record.started, record.started + record.duration_s
    return record.window


def _problem_row(added: AddedTraceFiles, problem: Problem) -> Row:
    row = {"host": added.host, "file": added.parsed_files[0][0], "line": None, "level": "note"}
    return row | {"trial": None, "name": problem.name, "message": problem.message}


def _no_overlap_text(traces: Traces, spans: Sequence[tuple[float, float]]) -> str:
    first, last = traces.times[0], traces.times[-1]
    if spans and first <= spans[-1][1] and last >= spans[0][0]:
        step, longest = format_duration(traces.interval_s), format_duration(max(b - a for a, b in spans))
        return f"no sample lies within a trial: one every {step}, trials of {longest} at most"
    return "no sample lies within the time of the run: is the clock's offset or the zone wrong?"


@lru_cache(maxsize=16)
def _sorted_points(raw: Path, added: AddedTraceFiles, states: FileStates) -> tuple[list[float], list[Row]]:
    points: list[Row] = sorted(_read_added(raw, added, states).rows, key=itemgetter("t"))
    return [float(point["t"]) for point in points], points


@lru_cache(maxsize=16)
def _read_added(raw: Path, added: AddedTraceFiles, states: FileStates) -> Traces:
    """Read the metric files that were added for one host; a file that changed since then becomes a problem."""
    contents, problems = {}, []
    for name, sha256 in added.parsed_files:
        path = raw / name
        if path.is_file() and sha256_file(path) == sha256:
            contents[path.name.partition("-")[2]] = path.read_bytes()
        else:
            problems.append(Problem("changed-file", f"{name} is missing or no longer matches its sha256"))
    traces = host_metrics.read_traces(added.kind, contents) if contents else Traces([], [], 0.0, [])
    return Traces(traces.rows, traces.times, traces.interval_s, [*problems, *traces.problems])


def _file_states(raw: Path, added: AddedTraceFiles) -> FileStates:
    """Return size and time of each file."""
    paths = [raw / name for name, _ in added.parsed_files]
    stats = [path.stat() if path.is_file() else None for path in paths]
    return tuple((s.st_size, s.st_mtime_ns) if s else (0, 0) for s in stats)


MAX_BYTES = 500_000_000
SADF_TIMEOUT_S = 300.0
SYSSTAT = "sysstat"


class HostMetricFiles(NamedTuple):
    """Metric files of one kind: file name -> content, as `read` by ingest, and as given (`originals`).

    `originals` is empty if the files are read as they were given.
    """

    kind: str
    read: dict[str, bytes]
    originals: dict[str, bytes]

    @property
    def traces(self) -> Traces:
        """Return the traces in the files, with the problems found in them."""
        return host_metrics.read_traces(self.kind, self.read)


def read_metric_files(files: Sequence[Path], kind: str = "auto") -> list[HostMetricFiles]:
    """Read metric files and return them by kind; `kind` "auto" determines the kind of each file from its content.

    `sadf` must be installed to convert sar's binary data (kind "sysstat") to text.

    Raises
    ------
    UsageError : a file is missing or of an unknown kind. DataError : `sadf` cannot read a file, or it is empty.
    """
    if kind not in ("auto", SYSSTAT, *host_metrics.FORMATS):
        raise UsageError(f"no kind {kind!r} of traces", f"auto, {', '.join([*host_metrics.FORMATS, SYSSTAT])}")
    contents = {}
    for path in files:
        try:
            if path.stat().st_size > MAX_BYTES:
                raise UsageError(f"{path} is larger than {format_bytes(MAX_BYTES)}", "cut it to the time of the run")
            contents[str(path)] = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    named = {"auto": host_metrics.files_by_format(contents)}.get(kind, {kind: list(contents)})
    if unknown := named.get(None):
        kinds = ", ".join([*host_metrics.FORMATS, SYSSTAT])
        raise UsageError(f"{join_words(unknown)}: not a file of traces that loadbook knows", f"--kind one of: {kinds}")
    files_by_kind = [_metric_files(str(k), {name: contents[name] for name in names}) for k, names in named.items()]
    for files_of_kind in files_by_kind:
        traces, listed = files_of_kind.traces, join_words(list(files_of_kind.read))
        if not traces.rows:
            messages = "; ".join(problem.message for problem in traces.problems[:3])
            raise DataError(f"{listed}: read as {files_of_kind.kind}, nothing usable in it: {messages}")
    return files_by_kind


def _metric_files(kind: str, contents: Mapping[str, bytes]) -> HostMetricFiles:
    plain = {Path(name).name: data for name, data in contents.items()}
    if len(plain) < len(contents):
        raise UsageError("two of the files have one name", "add them one after the other")
    if kind != SYSSTAT:
        return HostMetricFiles(kind, plain, {})
    return HostMetricFiles("sadf-json", {f"{Path(name).name}.json": sadf_json(Path(name)) for name in contents}, plain)


def sadf_json(path: Path) -> bytes:
    """Return the output of ``sadf -j FILE -- -A`` for a binary file of sar.

    This text is stored because the binary format changes with the version of sysstat.
    """
    by_hand = f"export it where it was written: sadf -j {path.name} -- -A >{path.name}.json"
    if shutil.which("sadf") is None:
        hint = f"{by_hand}, or install sysstat"
        raise UsageError(f"{path} is binary data of sar, and sadf is not installed here", hint)
    argv, env = ["sadf", "-j", str(path.absolute()), "--", "-A"], {"LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(argv, capture_output=True, timeout=SADF_TIMEOUT_S, check=False, env=env)
    except (OSError, subprocess.SubprocessError) as error:
        raise DataError(f"sadf could not read {path}: {error}", by_hand) from error
    if b'"timestamp"' not in done.stdout:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise DataError(f"sadf could not read {path}: {lines[0] if lines else 'it printed nothing'}", by_hand)
    return done.stdout


def add_metric_files(
    layout: Layout,
    study: str,
    run: str,
    metric_files: Sequence[HostMetricFiles],
    host: str,
    role: str | None,
    offset_s: float | None,
) -> list[AddedTraceFiles]:
    """Copy metric files to a run and record them with checksums in its ledger; the next ingest reads them.

    Parameters
    ----------
    host : alias of the host in the run, or a name for another machine, which needs a `role`.
    role : role of the host; None takes the first of its roles in the run.
    offset_s : the host's clock minus the controller's (s); None uses the offset measured in each trial.

    Raises
    ------
    UsageError : an unknown host, a host without a role, or a run of the study is in progress.
    """
    paths = layout.run(study, run)
    hosts = read_run_record(paths).hosts
    roles = hosts[host].roles if check_name("host", host) in hosts else []
    if not role and not roles:
        raise UsageError(
            f"run {run} of {study} has no host {host!r}",
            f"its hosts: {', '.join(hosts)}; of another machine say what it did: --role balancer",
        )
    with hold_study_lock(layout.study_raw(study)):
        return [
            store_added_files(paths, host, role or roles[0], g.kind, offset_s, g.read, g.originals)
            for g in metric_files
        ]
