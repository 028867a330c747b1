"""The tool that wrote each output: the one named by the user, else the only one whose parser accepts it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from loadbook.core.errors import LoadbookError, ParseError, UsageError
from loadbook.external.conditions import Condition, ImportProblem, OutputFiles
from loadbook.ingestion.trial_rows import find_argv
from loadbook.tools import base
from loadbook.tools.base import ParsedReport, ToolOutput

# metrics of loads at a given rate only
OPEN_METRICS = ("offered_per_s", "latency_intended")


@dataclass(frozen=True)
class ToolReport:
    """One output and its parsed report: `parsed` is None if it cannot be read, with the reason in `error`."""

    source: OutputFiles
    tool: str
    parsed: ParsedReport | None
    error: str | None = None

    @property
    def condition(self) -> Condition:
        """The user's description of the output."""
        return self.source.condition

    @property
    def metrics(self) -> frozenset[str]:
        """Names of the measured metrics."""
        return frozenset(row.metric for row in self.parsed.measurements) if self.parsed else frozenset()

    @property
    def offered_per_s(self) -> float | None:
        """The offered rate given by the user, else by the report; None without either."""
        rows = self.parsed.measurements if self.parsed else ()
        reported = next((row.value for row in rows if row.metric == "offered_per_s"), None)
        return self.condition.offered_per_s or reported

    @property
    def is_open(self) -> bool:
        """Return whether the load is open: it has a rate of its own."""
        return self.condition.offered_per_s is not None or bool(self.metrics & set(OPEN_METRICS))


def read_reports(
    sources: Sequence[OutputFiles], tool: str | None, on_file: Callable[[int, int], None]
) -> tuple[list[ToolReport], list[ImportProblem]]:
    """Read every output with the tool of its row, else `tool`, else every tool.

    A named tool that cannot read an output is no mistake (the trial will have no numbers), unless another tool can.
    `on_file(done, total)` receives the progress.
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
    """Return one report; its tool is empty where none was named and no parser accepts the output."""
    names = base.tool_names()
    if named and named not in names:
        raise UsageError(f"no tool {named!r}; tools: {', '.join(names)}")
    read = source.read_captured()
    tried = {name: _try_tool(source, read, name) for name in ([named] if named else names)}
    taken = [name for name, result in tried.items() if isinstance(result, ParsedReport)]
    if named and not taken:
        others = [name for name in names if name != named and isinstance(_try_tool(source, read, name), ParsedReport)]
        if others:
            raise ParseError(others[0], source.condition.file, 0, f"this is its report, not one of {named}")
        return ToolReport(source, named, None, str(tried[named]))
    if len(taken) > 1:
        which = f"{', '.join(taken[:-1])} or {taken[-1]}"
        raise UsageError(f"{source.condition.file} may be a report of {which}: say which in a column 'tool'")
    parsed = tried[taken[0]] if taken else None
    return ToolReport(source, taken[0] if taken else "", parsed if isinstance(parsed, ParsedReport) else None)


def _try_tool(source: OutputFiles, read: ToolOutput, name: str) -> ParsedReport | str:
    """Return the parsed report of a tool, or the parser's error message."""
    tool = base.load_tool(name)
    try:
        return base.parse_output(tool, replace(read, argv=find_argv(source.command, tool.binary)))
    except ParseError as error:
        return error.message


def _assign_tools(reports: Sequence[ToolReport]) -> tuple[list[ToolReport], list[ImportProblem]]:
    """Give outputs that no parser takes the tool of their treatment, else the only tool there is.

    An output of a treatment with several tools gets none.
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
            text = f"{report.condition.file} is no report of any tool ({', '.join(base.tool_names())})"
            text += ": if it should be one, say which by --tool"
            problems.append(ImportProblem(report.condition.line, text, data=True))
        elif not report.tool:
            error = _try_tool(report.source, report.source.read_captured(), tool)
            report = replace(report, tool=tool, error=str(error))
        assigned.append(report)
    return assigned, problems


def _mixed_tools(reports: Sequence[ToolReport]) -> Iterator[ImportProblem]:
    """Yield outputs of another tool than the first of their treatment, or of all if no tool was named."""
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
