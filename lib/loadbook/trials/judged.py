"""What the load generators' own outputs say of a trial, as soon as they are there.

A generator's exit code says nothing about that: wrk, ab and httperf end with 0 when every single response was an error
or every connection refused. What needs more than their outputs (traces, other trials) is left to the gates of ingest.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from loadbook.design.study import Gates
from loadbook.gates.trial import check_trial
from loadbook.records.manifest import DriverRecord, Status, TrialRecord
from loadbook.trials.trial_rows import Row, TrialRows, load_rows

# gates that read nothing but what the generators say; each of them can be of the level "invalid"
BY_OUTPUT = (
    *("zero_work", "error_responses", "socket_errors", "driver_limits"),
    *("ports_exhausted", "not_http", "zero_bytes"),
)
SAID_CHARS = 200


class Judged(NamedTuple):
    """How a trial ended, and why."""

    status: Status
    reason: str


def judged(folder: Path, record: TrialRecord, thresholds: Gates) -> Judged | None:
    """Return how a trial whose load ran to its end must be recorded, None if its generators have nothing against it.

    What a generator printed in an unknown shape, or not to its end, is `tool_failed`; errors beyond the study's limit
    are `invalid`; a file of requests that is not whole is `partial`.
    """
    try:
        rows = load_rows(folder, record)
    except Exception as error:  # a reader's own fault must not cost the run; the files are kept
        return Judged("tool_failed", f"{record.tool}: its output cannot be read: {type(error).__name__}: {error}")
    named = {name: [p for p in rows.problems if p["name"] == name] for name in ("ports_exhausted", "unreadable-output")}
    failed = [f"host {driver.host}: {record.tool} {_ended(folder, driver)}" for driver in record.drivers if driver.rc]
    if named["ports_exhausted"]:
        return Judged("invalid", _said(named["ports_exhausted"]))
    if failed or any(driver.rc is None for driver in record.drivers):
        return Judged("tool_failed", "; ".join(failed) or f"{record.tool} left no exit code")
    if unreadable := named["unreadable-output"]:
        return _unreadable(folder, unreadable)
    return _by_gates(record, rows, thresholds) or _rejected(rows)


def _ended(folder: Path, driver: DriverRecord) -> str:
    """Return how a process ended, and the last line that it wrote about it."""
    code = driver.rc or 0
    said = _last_line(folder / driver.stderr)
    more = f": {said}" if said else ""
    if code <= 128:
        return f"ended with exit code {code}{more}"
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        name = "unknown"
    memory = ", as the kernel does when memory runs out" if name == "SIGKILL" else ""
    return f"was killed by signal {code - 128} ({name}{memory}): exit code {code}{more}"


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 10 * SAID_CHARS))
            said = file.read().decode(errors="replace").strip()
    except OSError:
        return ""
    return said.splitlines()[-1][:SAID_CHARS] if said else ""


def _unreadable(folder: Path, problems: list[Row]) -> Judged:
    """Judge outputs that cannot be read: a row of a file of requests spoils that file, anything else is no report."""
    rows = [p for p in problems if not p["file"].startswith("stdout-") and (p["line"] or 0) > 1]
    if len(rows) < len(problems):
        return Judged("tool_failed", _said(problems))
    lost = sum(_lines(folder / file) for file in {p["file"] for p in rows})
    return Judged("partial", f"{_said(problems)}; none of {lost:,} lines was counted")


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _by_gates(record: TrialRecord, rows: TrialRows, thresholds: Gates) -> Judged | None:
    hits = check_trial(rows.record, rows.measurements, (), rows.doubts, thresholds)
    said = [hit.message for hit in hits if hit.name in BY_OUTPUT and hit.level == "invalid"]
    return Judged("invalid", " ".join(said)) if said else None


def _rejected(rows: TrialRows) -> Judged | None:
    if not rows.rejected:
        return None
    said = "; ".join(message for name, message in rows.doubts if name in rows.rejected)
    return Judged("partial", f"the file of requests is not whole, {rows.rejected.total()} rejected: {said}")


def _said(problems: Iterable[Row]) -> str:
    return "; ".join(f"host {problem['host']}: {problem['message']}" for problem in problems)
