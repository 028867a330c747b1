"""Rows of one recorded trial (measurements, samples, traces, counters, request logs) and problems found in its files.

`read_load_rows` reads the outputs of load generators, `read_trial_rows` also those of hosts. A file that no longer
matches its sha256 is not read; an output that cannot be parsed gives a problem and no number. Totals over several
drivers are sums if a sum has a meaning, and otherwise left out; they are never averages.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from loadbook.core.errors import DataError, ParseError
from loadbook.core.metrics import CPU_PER_RESPONSE
from loadbook.core.validity_rules import rule_advice
from loadbook.host_metrics import read_traces, sampler
from loadbook.host_metrics.base import Problem, Traces
from loadbook.ingestion import report_files
from loadbook.ingestion.host_metrics import TIME_DIGITS, Row, trace_row
from loadbook.modes.plain.read import read_of
from loadbook.store.trial_record import (
    DriverRecord,
    MonitorRecord,
    PolledRecord,
    TrialRecord,
    changed_files,
    window_fields,
)
from loadbook.tools import base, h2load, jmeter, k6, vegeta
from loadbook.tools.base import MAX_REPORT_BYTES, Measurement, ParsedReport, Tool, ToolOutput
from loadbook.tools.line_patterns import clean_lines, find_port_exhaustion

# endings of single files that are not standard output; size in bytes above which files are read as streams
STREAMED_SUFFIX, MAX_READ_BYTES = ".jtl", 64 << 20
STDOUT = "stdout"
# files of a folder that the tool did not write
RESERVED_NAMES = frozenset({"stdout", "stderr", "cmd", "rc", "note", "wall"})


def read_captured(path: Path, binary: str) -> ToolOutput:
    """Return the output of one execution of `binary` from a file or folder; DataError if there is none.

    A folder contains `stdout`, optionally `stderr`, `cmd` (command line) and `rc` (exit code), and the tool's own
    files; a single file is the tool's standard output, and ``FILE#3`` the third report in it.
    """
    file, number = report_files.report_number(path)
    if number:
        return ToolOutput(report_files.choose_report(report_files.read_reports(file), file, number))
    if not path.is_dir():
        return read_output({path.name if path.name.endswith(STREAMED_SUFFIX) else STDOUT: path})
    files = {p.name: p for p in sorted(path.iterdir()) if p.is_file()}
    if STDOUT not in files:
        here = ", ".join(files) or "nothing"
        raise DataError(f"{path}: no file named stdout", f"the folder holds {here}; name the file to read instead")
    texts = {name: read_bytes(files[name]).decode(errors="replace").strip() for name in ("cmd", "rc") if name in files}
    own = {name: p for name, p in files.items() if name == STDOUT or name not in RESERVED_NAMES}
    exit_code = int(texts["rc"]) if texts.get("rc", "").isdecimal() else None
    return read_output(own, files.get("stderr"), exit_code, find_argv(texts.get("cmd", ""), binary))


def read_output(
    files: Mapping[str, Path], stderr: Path | None = None, exit_code: int | None = None, argv: Sequence[str] = ()
) -> ToolOutput:
    """Return the output of one execution from its files; the file named STDOUT is its standard output.

    Small files are read now, large ones later as streams. DataError: a file cannot be read.
    """
    contents, big = {}, {}
    for name, path in files.items():
        try:
            size = path.stat().st_size
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from None
        if size > (MAX_REPORT_BYTES if name == STDOUT else MAX_READ_BYTES):
            big[name] = path
        else:
            contents[name] = read_bytes(path)
    stdout, errors = contents.pop(STDOUT, b""), read_bytes(stderr) if stderr else b""
    return ToolOutput(stdout, errors, exit_code=exit_code, argv=tuple(argv), files=contents, paths=big)


def find_argv(command: str, binary: str) -> tuple[str, ...]:
    """Return the argument list of `binary` in a shell command line, also inside ``ssh host '...'``; () if not found."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ()
    for i, word in enumerate(words):
        if re.fullmatch(re.escape(binary) + r"(?:-?0[\d.]*)?", PurePosixPath(word).name):  # weighttp05, weighttp-0.4
            return tuple(words[i:])
    inner = (find_argv(word, binary) for word in words if " " in word and word != command)
    return next((argv for argv in inner if argv), ())


def parse_output(tool: Tool, path: Path, captured: ToolOutput) -> ParsedReport:
    """Parse the output read from `path`; errors name that file."""
    try:
        return base.parse_output(tool, captured)
    except ParseError as error:
        file = path / error.file if path.is_dir() else path
        raise ParseError(tool.name, str(file), error.line, error.reason) from None


def read_bytes(path: Path) -> bytes:
    """Return the first MAX_READ_BYTES of a file; DataError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_READ_BYTES)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


SUMMED_UNITS = ("1", "B", "1/s", "B/s")
# shares of one CPU, whose sum over drivers has no meaning
NEVER_SUMMED = ("driver_cpu",)


def driver_totals(reports: Sequence[ParsedReport]) -> list[Measurement]:
    """Return the rows of driver ``*``, the totals over all drivers; for a single driver its own values.

    Counts and rates are summed, each rate over its driver's own duration; the duration is the longest one. Statistics
    of times are computed from the single times of all drivers, and left out if a driver has no single times.
    """
    if len(reports) == 1:
        return list(reports[0].measurements)
    tables = [{(m.metric, m.statistic): m for m in report.measurements} for report in reports]
    times = merged_times(reports)
    totals = []
    for m in reports[0].measurements if reports else ():
        if not all((m.metric, m.statistic) in table for table in tables):
            continue
        values = [table[m.metric, m.statistic].value for table in tables]
        if m.metric == "duration":
            totals.append(m._replace(value=max(values), text=None))
        elif m.unit in SUMMED_UNITS and m.metric not in NEVER_SUMMED:
            totals.append(m._replace(value=sum(values), text=None))
        elif m.metric in times and (value := statistic_s(times[m.metric], m.statistic)) is not None:
            totals.append(m._replace(value=value, text=None))
    return totals


def unmerged_times(reports: Sequence[ParsedReport]) -> list[str]:
    """Return the time metrics without a total because a driver has no single times."""
    timed = {m.metric for report in reports for m in report.measurements if m.unit == "s" and m.metric != "duration"}
    return sorted(timed - set(merged_times(reports))) if len(reports) > 1 else []


def merged_times(reports: Sequence[ParsedReport]) -> dict[str, Counter[int]]:
    """Return the single times of all drivers by metric, for metrics that every driver has."""
    if not reports:
        return {}
    metrics = set.intersection(*(set(report.times_us) for report in reports))
    return {metric: sum((Counter(r.times_us[metric]) for r in reports), Counter()) for metric in metrics}


def statistic_s(times_us: Mapping[int, int], statistic: str) -> float | None:
    """Return a statistic of single times in s (percentiles: nearest rank); None for an unknown statistic."""
    count, ordered = sum(times_us.values()), sorted(times_us)
    mean = sum(us * n for us, n in times_us.items()) / count
    if statistic in ("min", "max", "mean"):
        return {"min": ordered[0], "max": ordered[-1], "mean": mean}[statistic] / 1e6
    if statistic == "sd":
        return math.sqrt(sum((us - mean) ** 2 * n for us, n in times_us.items()) / max(1, count - 1)) / 1e6
    if not statistic.startswith("p"):
        return None
    rank = max(1, math.ceil(float(statistic[1:]) / 100 * count - 1e-9))
    reached = itertools.accumulate(times_us[us] for us in ordered)
    return next(us for us, n in zip(ordered, reached, strict=True) if n >= rank) / 1e6


# counter of a service -> metric; other counters keep their names
METRICS = {"requests": "served_requests", "connections": "accepted_connections"}
SOURCE = "service"


def counter_rows(record: TrialRecord) -> tuple[list[Row], list[tuple[str, str]]]:
    """Return two rows for each counter that was read twice; host and message for each counter that decreased.

    A counter decreases if its service restarts or another one answers. Times (s) are those of the load's start and end,
    including warm-up; 0 is the start of the measurement window.
    """
    began = [d.started_ours for d in record.drivers if d.started_ours is not None]
    ended = [d.ended_ours for d in record.drivers if d.ended_ours is not None]
    rows: list[Row] = []
    decreased: list[tuple[str, str]] = []
    if record.window is None or not began or not ended:
        return rows, decreased
    times = [round(t - record.window[0], TIME_DIGITS) for t in (min(began), max(ended))]
    for service in record.services:
        keys = {"host": service.host, "role": service.role, "item": service.service, "unit": "1", "source": SOURCE}
        for name in sorted(service.counters_before.keys() & service.counters_after.keys()):
            before, after = service.counters_before[name], service.counters_after[name]
            if after < before:
                text = f"role {service.role}: {service.service} counted {before:.0f} {name}, then {after:.0f}"
                decreased.append((service.host, text))
                continue
            for t_s, value in zip(times, (before, after), strict=True):
                rows.append(keys | {"t_s": t_s, "metric": METRICS.get(name, name), "value": float(value)})
    return rows, decreased


def write_requests(folder: Path, record: TrialRecord, target: Path) -> ParseError | None:
    """Write `target` from the request logs in a trial's folder; no file is written if no log is readable.

    h2load appends to the log of the warm-up: rows from before the measuring process are left out.
    """
    logs = [(driver, folder / name) for driver in record.drivers for name in _request_logs(record.tool, driver)]
    if not logs:
        return None
    from loadbook.request_logs.read import RequestWriter, read_batches

    try:
        with RequestWriter(target) as store:
            for driver, path in logs:
                properties = jmeter.command_properties(ToolOutput(b"", argv=tuple(driver.argv)))
                for batch in read_batches(path, record.tool, properties=properties):
                    since = driver.started_host if record.tool == "h2load" else None
                    store.write(batch.started_since(since), driver.host)
    except ParseError as error:
        return error
    return None


def _request_logs(tool: str, driver: DriverRecord) -> Iterator[str]:
    """Yield the names of a driver's request logs."""
    if tool == "jmeter":
        named = [name for name in driver.files if name.endswith(".jtl")]
        yield driver.files[jmeter.RESULTS_FILE if len(named) > 1 else named[0]] if named else driver.stdout
    argv = tuple(driver.argv)
    requested = {
        "h2load": h2load.log_file_name(argv),
        "vegeta": vegeta.RESULTS_FILE,
        "k6": k6.POINTS_FILE,
        "ab": argv[argv.index("-g") + 1].rpartition("/")[2] if "-g" in argv[:-1] else None,
    }
    if (name := requested.get(tool)) and name in driver.files:
        yield driver.files[name]


ALL_DRIVERS = "*"
VALIDITY_SOURCES = ("sampler", SOURCE)  # of traces that validity rules use
READABLE = ("ok", "partial", "invalid")
# hosts whose `date` has no fractions of seconds record process times in whole seconds
SPAN_SLACK_S = 1.0
STDERR_TAIL_BYTES = 10_000


@dataclass
class TrialRows:
    """Rows of one trial for the tables, without the columns study, run and trial.

    `changed` names the files that were not read because they no longer match their sha256. `times_us` has the single
    times of all drivers by metric, if they were asked for.
    """

    record: TrialRecord
    measurements: list[Row] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)
    traces: list[Row] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)
    doubts: list[tuple[str, str]] = field(default_factory=list)
    changed: Sequence[str] = ()
    times_us: Mapping[str, Counter[int]] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)

    def add_problem(
        self,
        name: str,
        message: str,
        *,
        level: str = "invalid",
        host: str | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        """Add one problem of this trial."""
        row = {"host": host, "file": file, "line": line, "name": name, "level": level, "message": message}
        self.problems.append(row)


def read_trial_rows(folder: Path, record: TrialRecord, *, with_times: bool = False) -> TrialRows:
    """Read the rows of one trial from its folder."""
    changed = changed_files(folder, record)
    if record.status in READABLE:
        rows = read_load_rows(folder, record, changed, with_times=with_times)
        _add_host_metrics(rows, folder, changed)
        counters, decreased = counter_rows(rows.record)
        rows.traces += counters
        for host, message in decreased:
            rows.add_problem("served-less", message, level="doubt", host=host)
    else:
        rows = TrialRows(record, changed=changed)
    for name in changed:
        message = f"{name} is missing or no longer matches its sha256; it was not used"
        rows.add_problem("changed-file", message, file=name)
    return rows


def read_load_rows(
    folder: Path, record: TrialRecord, changed: Sequence[str] = (), *, with_times: bool = False
) -> TrialRows:
    """Read the outputs of a trial's load generators, except `changed` files."""
    rows = TrialRows(record, changed=changed)
    parsed = {d.host: p for d in record.drivers if (p := _parse_driver_output(folder, d, changed, rows)) is not None}
    parsed = read_of(record).own_reports(rows, folder, changed, parsed)
    if len(parsed) == len(record.drivers):
        rows.record = _with_request_times(record, parsed)
        rows.times_us = merged_times(list(parsed.values())) if with_times else {}
        _add_measurements(rows, parsed)
    return rows


def _parse_driver_output(
    folder: Path, driver: DriverRecord, changed: Sequence[str], rows: TrialRows
) -> ParsedReport | None:
    if {driver.stdout, driver.stderr, *driver.files.values()} & set(changed):
        return None
    names = {STDOUT: driver.stdout, **dict(sorted(driver.files.items()))}
    files = {name: folder / local_name for name, local_name in names.items()}
    captured = read_output(files, folder / driver.stderr, driver.rc, driver.argv)
    try:
        parsed = base.parse_output(base.load_tool(rows.record.tool), captured)
    except ParseError as error:
        file = driver.files.get(error.file, driver.stdout)
        # ab then gives up without a report
        if line := find_port_exhaustion(clean_lines(captured.stderr[-STDERR_TAIL_BYTES:])):
            message = f"the driver ran out of local ports: {line}" + rule_advice("ports_exhausted")
            rows.add_problem("ports_exhausted", message, host=driver.host, file=driver.stderr)
        else:
            rows.add_problem("unreadable-output", error.message, host=driver.host, file=file, line=error.line or None)
        return None
    rows.rejected.update(parsed.rejected)
    prefix = f"host {driver.host}: " if len(rows.record.drivers) > 1 else ""
    rows.doubts += [(name, prefix + message) for name, message in parsed.doubts]
    return parsed


def _with_request_times(record: TrialRecord, parsed: dict[str, ParsedReport]) -> TrialRecord:
    """Return the record with start and end from the request log, if the tool writes one."""
    drivers = [_with_request_span(driver, parsed[driver.host].span) for driver in record.drivers]
    changed = {"drivers": drivers, **window_fields(drivers, record.clocks)}
    return record if drivers == record.drivers else record.model_copy(update=changed)


def _with_request_span(driver: DriverRecord, span: tuple[float, float] | None) -> DriverRecord:
    """Return a driver's record with the given span if it lies within the process's life; else its clock is another."""
    if span is None or driver.started_host is None or driver.ended_host is None:
        return driver
    if not driver.started_host - SPAN_SLACK_S <= span[0] < span[1] <= driver.ended_host + SPAN_SLACK_S:
        return driver
    return driver.model_copy(update={"started_host": span[0], "ended_host": span[1]})


def _add_measurements(rows: TrialRows, parsed: dict[str, ParsedReport]) -> None:
    per_driver = [(driver, m) for driver, p in parsed.items() for m in p.measurements]
    reports, skew_s = list(parsed.values()), rows.record.start_skew_s
    totals = [(ALL_DRIVERS, m) for m in driver_totals(reports)]
    totals += [(ALL_DRIVERS, m) for m in cpu_measurements(rows.record, [m for _, m in totals])]
    if skew_s is not None:
        totals.append((ALL_DRIVERS, Measurement("start_skew", "value", skew_s, "s", None)))
    rows.measurements = [{"driver": driver, **m._asdict()} for driver, m in per_driver + totals]
    rows.samples = [{"driver": driver, **s._asdict()} for driver, p in parsed.items() for s in p.samples]
    if names := ", ".join(unmerged_times(reports)):
        message = f"{names}: each driver's own; those of several cannot be put together"
        rows.add_problem("per-driver", message, level="note")


def cpu_measurements(record: TrialRecord, measurements: Iterable[Measurement]) -> list[Measurement]:
    """Return CPU seconds per successful response of all services, and of those of each role; nothing if not known."""
    ok = next((m.value for m in measurements if (m.metric, m.statistic) == ("ok", "count")), 0.0)
    used: dict[str, float] = {}
    for service in record.services:
        if service.cpu_s is None:
            return []
        for name in (CPU_PER_RESPONSE, f"{CPU_PER_RESPONSE}.{service.role}"):
            used[name] = used.get(name, 0.0) + service.cpu_s
    return [Measurement(name, "value", cpu_s / ok, "s", None) for name, cpu_s in used.items()] if ok else []


def _add_host_metrics(rows: TrialRows, folder: Path, changed: Iterable[str]) -> None:
    """Add the samples of all hosts, with times by the controller's clock; 0 is the start of the measurement."""
    record = rows.record
    if record.window is None:
        return
    for monitor in record.monitors:
        if monitor.file not in changed:
            clock = record.clocks.get(monitor.host)
            opened = record.window[0] + (clock.offset_before_s if clock else 0.0)
            parsed = sampler.parse_sampler((folder / monitor.file).read_bytes())
            # the load generator normally ends before its monitor
            problems = [
                p
                for p in parsed.problems
                if not (p.name == "process_gone" and re.match(rf"{re.escape(record.tool)}(\.\d+)?:", p.message))
            ]
            _add_host_metric_source(rows, parsed, opened, monitor, "sampler", problems)
    for polled in record.polled:
        if polled.file not in changed:
            parsed = read_traces(polled.source, {polled.file: (folder / polled.file).read_bytes()})
            early = [Problem("monitor_ended", polled.problem)] if polled.problem else []
            _add_host_metric_source(rows, parsed, record.window[0], polled, polled.source, [*early, *parsed.problems])


def _add_host_metric_source(
    rows: TrialRows, parsed: Traces, opened: float, monitor: MonitorRecord | PolledRecord, source: str,
    problems: Iterable[Problem],
) -> None:  # fmt: skip
    """Add a source's samples and problems; `opened` is the window's start by the source's clock."""
    keys = {"host": monitor.host, "role": monitor.role, "source": source}
    for point in read_of(rows.record).own_samples(rows.record, parsed.rows):
        rows.traces.append(trace_row(keys, point, float(point["t"]) - opened))
    for problem in problems:
        rows.add_problem(problem.name, problem.message, level="note", host=monitor.host, file=monitor.file)
