"""Rows of one arm of a shared block: its rates by the seconds of its own load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError, ParseError
from loadbook.host_metrics.base import TraceRow
from loadbook.ingestion.captured import read_bytes
from loadbook.ingestion.trial_rows import TrialRows
from loadbook.modes.interleaved.read import RATE_UNITS, own_processes
from loadbook.modes.plain.read import PlainRead
from loadbook.store.trial_record import SLICE_SERIES, SharedRecord, TrialRecord
from loadbook.tools.base import Measurement, ParsedReport
from loadbook.tools.shared_load import PART_FILE, Part, read_part


class SharedRead(PlainRead):
    """What is read of a trial of a shared block."""

    def own_reports(
        self, rows: TrialRows, folder: Path, changed: Sequence[str], parsed: Mapping[str, ParsedReport]
    ) -> dict[str, ParsedReport]:
        """Return the reports with rates by the seconds of the arm's load."""
        record, reports = rows.record, dict(parsed)
        assert record.shared is not None
        for driver in [one for one in record.drivers if one.host in parsed]:
            try:
                part = read_part(record.tool, read_bytes(folder / driver.files[PART_FILE]))
                reports[driver.host] = own_report(parsed[driver.host], record.shared, part)
            except (KeyError, DataError, ParseError) as error:
                text = error.message if isinstance(error, DataError | ParseError) else "there is none"
                rows.add_problem("unreadable-output", f"part of the load: {text}", file=PART_FILE)
                del reports[driver.host]
        return reports

    def own_samples(self, record: TrialRecord, points: Sequence[TraceRow]) -> Sequence[Mapping[str, Any]]:
        """Return the arm's own processes, and those of other arms as one item."""
        assert record.shared is not None
        return own_processes(points, record.shared.arm)


def own_report(report: ParsedReport, shared: SharedRecord, part: Part) -> ParsedReport:
    """Return an arm's report with rates by the seconds of its load, which lasts longer if the generator was late.

    Rates by the second of the clock are left out where the arm has slices; these are samples then.
    """
    values = {(m.metric, m.statistic): m.value for m in report.measurements}
    tool_s, active_s = values.get(("duration", "value")), shared.active_s * part.stretch
    if not tool_s or not active_s:
        return report
    measurements = [_active_measurement(m, tool_s, active_s) for m in report.measurements]
    measurements.append(Measurement("offered_per_s", "value", part.requests / shared.active_s, "1/s", None))
    by_slice = tuple(sample for sample in report.samples if sample.series == SLICE_SERIES)
    samples = report.samples if shared.slice_s is None else by_slice
    return replace(report, measurements=tuple(measurements), samples=samples)


def _active_measurement(m: Measurement, tool_s: float, active_s: float) -> Measurement:
    if m.metric == "duration":
        return m._replace(value=active_s)
    return m._replace(value=m.value * tool_s / active_s) if m.unit in RATE_UNITS else m


FACET = SharedRead()
