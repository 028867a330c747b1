"""The sides of a comparison of files: the outputs that each argument names, and which of their runs count.

A run counts as a trial of an import would: the validity rules that need no more than the report are applied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from glob import has_magic
from os.path import realpath
from pathlib import Path, PurePath
from statistics import median

from loadbook.core.errors import DataError, UsageError
from loadbook.core.text import clean
from loadbook.core.units import pluralize
from loadbook.ingestion.recognise import FoundReport, find_reports, natural_order
from loadbook.store.trial_record import DriverRecord, TrialRecord
from loadbook.study.limits import ValidityLimits
from loadbook.validity.base import RuleHit
from loadbook.validity.rules import check_trial

Key = tuple[str, str]  # metric and statistic
RATES: tuple[Key, ...] = (("ok_per_s", "value"), ("requests_per_s", "value"), ("attempts_per_s", "value"))
MIN_NUMBERS = 5  # that two runs have alike: with fewer, it may be chance
MANY_SIDES = 5  # of one run each: the shell has replaced a pattern by its files


@dataclass(frozen=True)
class Run:
    """One report of a side, by name; `copy_of` is an earlier report with the very same numbers, "" if there is none."""

    side: str
    report: FoundReport
    copy_of: str = ""

    @cached_property
    def values(self) -> dict[Key, float]:
        """(metric, statistic) -> value, in base units; empty for a report that cannot be read."""
        return {(row.metric, row.statistic): row.value for row in self.report.measurements}

    @cached_property
    def steps(self) -> dict[Key, float]:
        """(metric, statistic) -> step to which the tool rounded, as a share of the value, where it is known."""
        rows = [row for row in self.report.measurements if row.resolution is not None and row.value]
        return {(row.metric, row.statistic): (row.resolution or 0.0) / row.value for row in rows}

    @property
    def is_open(self) -> bool:
        """Whether the load is open: requests start at a given rate."""
        return bool(self.report.parsed and self.report.parsed.is_open)

    @cached_property
    def hits(self) -> tuple[RuleHit, ...]:
        """Violated validity rules, without those that could not be checked."""
        if self.report.parsed is None:
            return ()
        model = "open" if self.is_open else "closed"
        driver = DriverRecord(host="driver", argv=[], rc=None, stdout="stdout", stderr="stderr")
        record = TrialRecord(
            study="files", run="files", trial=self.report.name, treatment=self.side, factors={}, block=1, slot=1,
            attempt=1, status="ok", tool=self.report.tool, workload={"tool": self.report.tool, "model": model},
            drivers=[driver],
        )  # fmt: skip
        rows = [{"driver": "*", **row.as_row()} for row in self.report.measurements]
        hits = check_trial(record, rows, [], self.report.parsed.doubts, ValidityLimits())
        return tuple(hit for hit in hits if hit.level in ("invalid", "doubt"))

    @property
    def excluded_by(self) -> RuleHit | None:
        """The violated rule by which the run does not count; None if it counts."""
        return next((hit for hit in self.hits if hit.level == "invalid"), None)

    @property
    def counts(self) -> bool:
        """Whether the report was read, is no copy of another one, and no rule excludes it."""
        return self.report.parsed is not None and self.excluded_by is None and not self.copy_of


@dataclass(frozen=True)
class FileSummary:
    """What was read from one file of a side.

    `runs` are its reports, `requests` the sum over those that can be read, None if no report has it. `rate` is the
    median (1/s), None if no report has a rate.
    """

    name: str
    runs: tuple[Run, ...]

    @property
    def tools(self) -> tuple[str, ...]:
        """Tools that wrote its reports."""
        return tuple(dict.fromkeys(run.report.tool for run in self.runs if run.report.tool))

    @property
    def requests(self) -> int | None:
        """Number of requests, or of attempts, of all reports."""
        counts = [run.values.get(("requests", "count"), run.values.get(("attempts", "count"))) for run in self.runs]
        known = [count for count in counts if count is not None]
        return int(sum(known)) if known else None

    @property
    def rate(self) -> float | None:
        """Median of the rates, in 1/s: of successful responses, else of requests, else of attempts."""
        rates = [next((run.values[key] for key in RATES if key in run.values), None) for run in self.runs]
        known = [rate for rate in rates if rate is not None]
        return median(known) if known else None


@dataclass(frozen=True)
class Side:
    """All runs that one argument names."""

    name: str
    runs: tuple[Run, ...]

    @cached_property
    def counting(self) -> tuple[Run, ...]:
        """The runs that count."""
        return tuple(run for run in self.runs if run.counts)

    @property
    def files(self) -> list[FileSummary]:
        """One entry for each file, in the order in which they were read."""
        by_file: dict[str, list[Run]] = {}
        for run in self.runs:
            by_file.setdefault(re.sub(r"#\d+$", "", run.report.name), []).append(run)
        return [FileSummary(name, tuple(runs)) for name, runs in by_file.items()]

    @property
    def span(self) -> tuple[float, float] | None:
        """First start and last end of its runs in epoch seconds; None unless every run that counts tells its own."""
        spans = [run.report.parsed.span for run in self.counting if run.report.parsed]
        known = [span for span in spans if span is not None]
        return (min(s for s, _ in known), max(e for _, e in known)) if known and len(known) == len(spans) else None


def read_sides(
    arguments: Sequence[str], tool: str = "", on_file: Callable[[int, int], None] = lambda done, total: None
) -> list[Side]:
    """Return the sides that files, folders or patterns such as ``'old-*.txt'`` name, in their order.

    Parameters
    ----------
    tool : the tool that wrote all outputs; "" to find it out.
    on_file : called with the number of files and folders that were read, and of all.

    Raises
    ------
    UsageError : a name is that of no file, two sides have the same files, or there is only one side.
    DataError : a side has no run that can be read.
    """
    paths = {argument: _paths(argument) for argument in arguments}
    if len(paths) < 2:
        raise UsageError("one side only: there is nothing to compare it with", "loadbook compare BEFORE AFTER")
    _refuse_shared_files(paths)
    total, done, names = sum(map(len, paths.values())), 0, _short_names(arguments)
    sides = []
    for argument, own in paths.items():
        name, runs = names[argument], []
        for path in own:
            runs += [Run(name, report) for report in find_reports(path, tool)]
            on_file(done := done + 1, total)
        side = Side(name, tuple(runs))
        if not any(run.report.parsed for run in runs):
            reasons = [run.report.error for run in runs[:5]] or [f"{name} holds no file"]
            raise DataError(
                f"{name}: no report that can be read\n  " + "\n  ".join(reasons), "loadbook docs: result-files"
            )
        sides.append(side)
    if len(sides) >= MANY_SIDES and all(len(side.runs) == 1 for side in sides):
        text = f"{pluralize(len(sides), 'file')}, each of them a side of its own"
        raise UsageError(
            f"{text}: which belong together?", "quote the patterns: loadbook compare 'old-*.txt' 'new-*.txt'"
        )
    return _with_copies(sides)


def _with_copies(sides: Sequence[Side]) -> list[Side]:
    """Return the sides with their runs marked that have all numbers of an earlier run: one was measured, not two."""
    seen: dict[object, str] = {}
    marked = []
    for side in sides:
        runs = []
        for run in side.runs:
            numbers = run.report.measurements if len(run.values) >= MIN_NUMBERS else run
            place = f"{side.name}: {run.report.name}"
            first = seen.setdefault(numbers, place)
            runs.append(run if first == place else replace(run, copy_of=first))
        marked.append(Side(side.name, tuple(runs)))
    return marked


def _short_names(arguments: Sequence[str]) -> dict[str, str]:
    """Return argument -> name without the folders that all arguments have in common."""
    pure = {argument: PurePath(argument) for argument in arguments}
    shared = 0
    for parts in zip(*(path.parts[:-1] for path in pure.values()), strict=False):
        if len(set(parts)) > 1:
            break
        shared += 1
    return {argument: str(clean(str(PurePath(*path.parts[shared:])))) for argument, path in pure.items()}


def _paths(argument: str) -> list[Path]:
    """Return the files that an argument names: itself, or the matches of a pattern in natural order."""
    path = Path(argument)
    if has_magic(argument) and not path.exists():
        root = Path(path.anchor)
        found = sorted(root.glob(str(path.relative_to(path.anchor))), key=natural_order)
        if not found:
            raise UsageError(f"no file matches {argument!r}")
        return found
    return [path]


def _refuse_shared_files(paths: dict[str, list[Path]]) -> None:
    owners = {Path(realpath(path)): argument for argument, own in paths.items() for path in own}
    for argument, own in paths.items():
        for path in own:
            for place in (Path(realpath(path)), *Path(realpath(path)).parents):
                if owners.get(place, argument) != argument:
                    text = f"{path} belongs to {owners[place]!r} and to {argument!r}"
                    raise UsageError(text, "a file belongs to one side")
