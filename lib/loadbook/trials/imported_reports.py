"""Which tool wrote which output: told by the user, or the only one whose parser takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from loadbook.core.errors import LoadbookError, ParseError, UsageError
from loadbook.tools import registry
from loadbook.tools.base import Captured, Parsed
from loadbook.trials.imported_csv import Condition, Wrong
from loadbook.trials.imported_files import Source
from loadbook.trials.outputs import argv_of

# rows that only a load at a given rate has
OPEN_METRICS = ("offered_per_s", "latency_intended")


@dataclass(frozen=True)
class Report:
    """One output and what its tool's parser made of it: `parsed` is None where `error` says that it cannot be read."""

    source: Source
    tool: str
    parsed: Parsed | None
    error: str | None = None

    @property
    def condition(self) -> Condition:
        """What the user said of it."""
        return self.source.condition

    @property
    def metrics(self) -> frozenset[str]:
        """Names of what the report measured."""
        return frozenset(row.metric for row in self.parsed.rows) if self.parsed else frozenset()

    @property
    def offered_per_s(self) -> float | None:
        """The rate asked for, by the user's word, else by the report; None where neither tells."""
        rows = self.parsed.rows if self.parsed else ()
        told = next((row.value for row in rows if row.metric == "offered_per_s"), None)
        return self.condition.offered_per_s or told

    @property
    def is_open(self) -> bool:
        """Tell whether the load came at a rate of its own."""
        return self.condition.offered_per_s is not None or bool(self.metrics & set(OPEN_METRICS))


def read_reports(
    sources: Sequence[Source], tool: str | None, on_file: Callable[[int, int], None]
) -> tuple[list[Report], list[Wrong]]:
    """Read every output with the tool of its row, else `tool`, else every tool.

    A tool that was named and cannot read an output is no mistake (the trial will have no numbers), unless another
    tool can. `on_file(done, total)` is told of progress.
    """
    found: list[Report] = []
    wrong: list[Wrong] = []
    for number, source in enumerate(sources, 1):
        try:
            found.append(_read(source, source.condition.tool or tool or ""))
        except UsageError as error:
            wrong.append(Wrong(source.condition.line, error.message))
        except LoadbookError as error:
            wrong.append(Wrong(source.condition.line, error.message, data=True))
        on_file(number, len(sources))
    found, more = _settled(found)
    return found, [*wrong, *more, *_mixed(found)]


def _read(source: Source, named: str) -> Report:
    """Return one report; its tool is empty where none was named and no parser takes the output."""
    names = registry.names()
    if named and named not in names:
        raise UsageError(f"no tool {named!r}; tools: {', '.join(names)}")
    read = source.captured()
    tried = {name: _attempt(source, read, name) for name in ([named] if named else names)}
    taken = [name for name, result in tried.items() if isinstance(result, Parsed)]
    if named and not taken:
        others = [name for name in names if name != named and isinstance(_attempt(source, read, name), Parsed)]
        if others:
            raise ParseError(others[0], source.condition.file, 0, f"this is its report, not one of {named}")
        return Report(source, named, None, str(tried[named]))
    if len(taken) > 1:
        which = f"{', '.join(taken[:-1])} or {taken[-1]}"
        raise UsageError(f"{source.condition.file} may be a report of {which}: say which in a column 'tool'")
    parsed = tried[taken[0]] if taken else None
    return Report(source, taken[0] if taken else "", parsed if isinstance(parsed, Parsed) else None)


def _attempt(source: Source, read: Captured, name: str) -> Parsed | str:
    """Return what a tool's parser makes of an output, or why it refuses it."""
    tool = registry.load(name)
    try:
        return registry.parse(tool, replace(read, argv=argv_of(source.command, tool.binary)))
    except ParseError as error:
        return error.message


def _settled(reports: Sequence[Report]) -> tuple[list[Report], list[Wrong]]:
    """Give outputs that no parser takes the tool of their treatment, else the only tool there is."""
    by_treatment = {r.condition.treatment: r.tool for r in reports if r.tool}
    tools = set(by_treatment.values())
    only = min(tools) if len(tools) == 1 else ""
    found, wrong = [], []
    for report in reports:
        tool = report.tool or by_treatment.get(report.condition.treatment, only)
        if not tool:
            text = f"{report.condition.file} is no report of any tool ({', '.join(registry.names())})"
            wrong.append(Wrong(report.condition.line, f"{text}: if it should be one, say which by --tool", data=True))
        elif not report.tool:
            error = _attempt(report.source, report.source.captured(), tool)
            report = replace(report, tool=tool, error=str(error))
        found.append(report)
    return found, wrong


def _mixed(reports: Sequence[Report]) -> Iterator[Wrong]:
    """Yield outputs of another tool than their treatment's first, or than the first of all if the user named none."""
    first: dict[str, Report] = {}
    for report in (r for r in reports if r.tool):
        own = first.setdefault(report.condition.treatment, report)
        any_ = next(iter(first.values()))
        line, file = report.condition.line, report.condition.file
        if own.tool != report.tool:
            text = f"{file} is of {report.tool}, line {own.condition.line} of the same treatment is of {own.tool}"
            yield Wrong(line, f"{text}: a treatment has one tool", data=True)
        elif any_.tool != report.tool and not report.condition.tool and own is report:
            text = (
                f"{file} is of {report.tool}, line {any_.condition.line} is of {any_.tool}: tools measure differently"
            )
            yield Wrong(line, f"{text}; if they are what you compare, add a column 'tool', else import each", data=True)
    read = [r for r in reports if r.parsed]
    for report in read:
        if report.is_open != read[0].is_open:
            text = "one load has a rate of its own, the other waits for answers: they cannot be compared"
            where = f"{report.condition.file} and {read[0].condition.file} (line {read[0].condition.line})"
            yield Wrong(report.condition.line, f"{where}: {text}", data=True)
