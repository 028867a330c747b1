"""Reports of load generators among imported outputs: which tool wrote each, and what it says.

The tool of an output is the one named by the user, else the only one whose parser accepts the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from loadbook.core.errors import LoadbookError, ParseError, UsageError
from loadbook.imported.outputs import Condition, ImportProblem, OutputFiles
from loadbook.ingestion.recognise import try_tools, unreadable_reason
from loadbook.tools import base
from loadbook.tools.base import ParsedReport


@dataclass(frozen=True)
class ToolReport:
    """One output and its parsed report; if it is unreadable, `parsed` is None and `error` the reason.

    `tool` is "" if it is not known. `reasons` are the errors of all tools if none was named and none
    can read it. `taken_off` is as in `ToolOutput`.
    """

    source: OutputFiles
    tool: str
    parsed: ParsedReport | None
    error: str | None = None
    reasons: tuple[ParseError, ...] = ()
    taken_off: tuple[str, ...] = ()

    @property
    def condition(self) -> Condition:
        """The row of the CSV file that describes the output."""
        return self.source.condition

    @property
    def metrics(self) -> frozenset[str]:
        """Names of the metrics in the report; empty if it is unreadable."""
        return frozenset(row.metric for row in self.parsed.measurements) if self.parsed else frozenset()

    @property
    def offered_per_s(self) -> float | None:
        """Requested requests per second, given by the user or else by the report; None if by neither."""
        rows = self.parsed.measurements if self.parsed else ()
        reported = next((row.value for row in rows if row.metric == "offered_per_s"), None)
        return self.condition.offered_per_s or reported

    @property
    def is_open(self) -> bool:
        """Return whether the load is open, by the row of the CSV file or by the report."""
        return self.condition.offered_per_s is not None or bool(self.parsed and self.parsed.is_open)


def with_times_of_outputs(reports: Sequence[ToolReport]) -> list[ToolReport]:
    """Return the reports with the times of their requests as start and duration, if every output has these times.

    They stay unchanged if every row of the CSV file gives a start.
    """
    spans = [report.parsed.span if report.parsed else None for report in reports]
    if None in spans or all(report.condition.started is not None for report in reports):
        return list(reports)
    timed = []
    for report, (start, end) in zip(reports, filter(None, spans), strict=True):
        condition = replace(report.condition, started=start, duration=end - start)
        timed.append(replace(report, source=replace(report.source, condition=condition)))
    return timed


def read_reports(
    sources: Sequence[OutputFiles], tool: str | None, on_file: Callable[[int, int], None]
) -> tuple[list[ToolReport], list[ImportProblem]]:
    """Return the parsed outputs, and the mistakes.

    An output is parsed by the tool named in its row, else by `tool`, else by every tool to find the one that fits. An
    output that its named tool cannot parse is a mistake only if another tool can; else its trial has no numbers.
    `on_file(done, total)` is called after each output.
    """
    reports: list[ToolReport] = []
    problems: list[ImportProblem] = []
    for number, source in enumerate(sources, 1):
        try:
            reports.append(_read_report(source, source.condition.tool or tool or ""))
        except UsageError as error:
            problems.append(ImportProblem(source.condition.line, error.message))
        except LoadbookError as error:
            problems.append(ImportProblem(source.condition.line, error.message, data=True))
        on_file(number, len(sources))
    reports, tool_problems = _assign_tools(reports)
    return reports, [*problems, *tool_problems, *_mixed_tools(reports)]


def _read_report(source: OutputFiles, named: str) -> ToolReport:
    """Return one report; its `tool` is empty if none was named and no parser accepts the output."""
    names = base.tool_names()
    if named and named not in names:
        raise UsageError(f"no tool {named!r}; tools: {', '.join(names)}")
    read = source.read_captured()
    tried = try_tools(read, source.command, [named] if named else names)
    taken = {name: result for name, result in tried.items() if isinstance(result, ParsedReport)}
    if named and not taken:
        others = try_tools(read, source.command, [name for name in names if name != named])
        if other := next((name for name, result in others.items() if isinstance(result, ParsedReport)), None):
            raise ParseError(other, source.condition.file, 0, f"this is its report, not one of {named}")
        return ToolReport(source, named, None, str(tried[named]))
    if not taken:
        return ToolReport(source, "", None, reasons=tuple(e for e in tried.values() if isinstance(e, ParseError)))
    if len(taken) > 1:
        which = " or ".join(taken)
        raise UsageError(f"{source.condition.file} may be a report of {which}: say which in a column 'tool'")
    return ToolReport(source, *taken.popitem(), taken_off=read.taken_off)


def _assign_tools(reports: Sequence[ToolReport]) -> tuple[list[ToolReport], list[ImportProblem]]:
    """Assign a tool to each output that no parser accepts: that of its treatment, else the only tool of all outputs.

    An output of a treatment with several tools is a mistake.
    """
    by_treatment: dict[str, set[str]] = {}
    for report in (r for r in reports if r.tool):
        by_treatment.setdefault(report.condition.treatment, set()).add(report.tool)
    tools = set().union(*by_treatment.values())
    assigned, problems = [], []
    for report in reports:
        candidates = by_treatment.get(report.condition.treatment, tools)
        tool = report.tool or (min(candidates) if len(candidates) == 1 else "")
        if not tool:
            source, file = report.source, report.condition.file
            reason = unreadable_reason(source.read_captured(), file, report.reasons, source.number_of)
            problems.append(ImportProblem(report.condition.line, reason, data=True))
        elif not report.tool:
            report = replace(report, tool=tool, error=next(str(e) for e in report.reasons if e.tool == tool))
        assigned.append(report)
    return assigned, problems


def _mixed_tools(reports: Sequence[ToolReport]) -> Iterator[ImportProblem]:
    """Yield a mistake for each output whose tool or load model conflicts with that of an earlier output."""
    first: dict[str, ToolReport] = {}
    for report in (r for r in reports if r.tool):
        first_of_treatment = first.setdefault(report.condition.treatment, report)
        any_ = next(iter(first.values()))
        line, file = report.condition.line, report.condition.file
        if first_of_treatment.tool != report.tool:
            other = f"line {first_of_treatment.condition.line} of the same treatment is of {first_of_treatment.tool}"
            text = f"{file} is of {report.tool}, {other}: a treatment has one tool"
            yield ImportProblem(line, text, data=True)
        elif any_.tool != report.tool and not report.condition.tool and first_of_treatment is report:
            text = (
                f"{file} is of {report.tool}, line {any_.condition.line} is of {any_.tool}: tools measure differently"
            )
            text += "; if they are what you compare, add a column 'tool', else import each"
            yield ImportProblem(line, text, data=True)
    read = [r for r in reports if r.parsed]
    for report in read:
        if report.is_open != read[0].is_open:
            text = "one load has a rate of its own, the other waits for answers: they cannot be compared"
            outputs = f"{report.condition.file} and {read[0].condition.file} (line {read[0].condition.line})"
            yield ImportProblem(report.condition.line, f"{outputs}: {text}", data=True)
