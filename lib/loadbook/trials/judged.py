"""What the load generators' own outputs say of a trial, as soon as they are there.

A generator's exit code says nothing about that: wrk, ab and httperf end with 0 when every single response was an error
or every connection refused. What needs more than their outputs (traces, other trials) is left to the gates of ingest.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from loadbook.design.study import ValidityLimits
from loadbook.gates.trial import check_trial
from loadbook.records.manifest import DriverRecord, Status, TrialRecord
from loadbook.trials.trial_rows import Row, TrialRows, read_load_rows

# gates that read nothing but what the generators say; each of them can be of the level "invalid"
OUTPUT_RULES = (
    *("zero_work", "error_responses", "socket_errors", "driver_limits"),
    *("ports_exhausted", "not_http", "zero_bytes"),
)
MAX_STDERR_CHARS = 200


class TrialOutcome(NamedTuple):
    """How a trial ended, and why."""

    status: Status
    reason: str


def assess_outputs(folder: Path, record: TrialRecord, thresholds: ValidityLimits) -> TrialOutcome | None:
    """Return how a trial whose load ran to its end must be recorded, None if its generators have nothing against it.

    What a generator printed in an unknown shape, or not to its end, is `tool_failed`; errors beyond the study's limit
    are `invalid`; a file of requests that is not whole is `partial`.
    """
    try:
        rows = read_load_rows(folder, record)
    except Exception as error:  # a reader's own fault must not cost the run; the files are kept
        return TrialOutcome("tool_failed", f"{record.tool}: its output cannot be read: {type(error).__name__}: {error}")
    named = {name: [p for p in rows.problems if p["name"] == name] for name in ("ports_exhausted", "unreadable-output")}
    failed = [f"host {driver.host}: {record.tool} {_exit_text(folder, driver)}" for driver in record.drivers if driver.rc]
    if named["ports_exhausted"]:
        return TrialOutcome("invalid", _problems_text(named["ports_exhausted"]))
    if failed or any(driver.rc is None for driver in record.drivers):
        return TrialOutcome("tool_failed", "; ".join(failed) or f"{record.tool} left no exit code")
    if unreadable := named["unreadable-output"]:
        return _unreadable_outcome(folder, unreadable)
    return _rule_outcome(record, rows, thresholds) or _rejected_rows_outcome(rows)


def _exit_text(folder: Path, driver: DriverRecord) -> str:
    """Return how a process ended, and the last line that it wrote about it."""
    code = driver.rc or 0
    last_line = _last_line(folder / driver.stderr)
    suffix = f": {last_line}" if last_line else ""
    if code <= 128:
        return f"ended with exit code {code}{suffix}"
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        name = "unknown"
    memory = ", as the kernel does when memory runs out" if name == "SIGKILL" else ""
    return f"was killed by signal {code - 128} ({name}{memory}): exit code {code}{suffix}"


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 10 * MAX_STDERR_CHARS))
            text = file.read().decode(errors="replace").strip()
    except OSError:
        return ""
    return text.splitlines()[-1][:MAX_STDERR_CHARS] if text else ""


def _unreadable_outcome(folder: Path, problems: list[Row]) -> TrialOutcome:
    """Judge outputs that cannot be read: a row of a file of requests spoils that file, anything else is no report."""
    rows = [p for p in problems if not p["file"].startswith("stdout-") and (p["line"] or 0) > 1]
    if len(rows) < len(problems):
        return TrialOutcome("tool_failed", _problems_text(problems))
    lost = sum(_count_lines(folder / file) for file in {p["file"] for p in rows})
    return TrialOutcome("partial", f"{_problems_text(problems)}; none of {lost:,} lines was counted")


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _rule_outcome(record: TrialRecord, rows: TrialRows, thresholds: ValidityLimits) -> TrialOutcome | None:
    hits = check_trial(rows.record, rows.measurements, (), rows.doubts, thresholds)
    messages = [hit.message for hit in hits if hit.name in OUTPUT_RULES and hit.level == "invalid"]
    return TrialOutcome("invalid", " ".join(messages)) if messages else None


def _rejected_rows_outcome(rows: TrialRows) -> TrialOutcome | None:
    if not rows.rejected:
        return None
    reasons = "; ".join(message for name, message in rows.doubts if name in rows.rejected)
    return TrialOutcome("partial", f"the file of requests is not whole, {rows.rejected.total()} rejected: {reasons}")


def _problems_text(problems: Iterable[Row]) -> str:
    return "; ".join(f"host {problem['host']}: {problem['message']}" for problem in problems)
