"""The result of a comparison of files as one block: text, Markdown and an HTML page; and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from loadbook.analyses.compare_files.compute import FilesComparison, MetricRow, is_about
from loadbook.analyses.compare_files.sides import FileSummary, Run, Side
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, and_more, format_percent, format_quantity, join_words
from loadbook.report import html, palette
from loadbook.report.blocks import Block, answer_box, lines_list, provenance_line, scope_nodes
from loadbook.report.nodes import DASH, Column, Content, Heading, Picture, Table
from loadbook.stats.phrases import terminal_verdict, verdict_parts
from loadbook.stats.results import Verdict
from loadbook.stats.text import comparison_texts, direction, margin_text
from loadbook.stats.verdict import decide_verdict

MAX_LINES = 20  # of doubts
METHOD_NAMES = {
    "rank-sum": "Mann-Whitney", "welch-t": "Welch's t on logarithms", "rank-sum-and-t": "Mann-Whitney and Welch's t",
    "blocked-rank": "Mann-Whitney by pairs", "paired-t": "paired t on logarithms", "signed-rank": "signed ranks",
}  # fmt: skip


def key_text(key: tuple[str, str]) -> str:
    """Return a metric and its statistic: "ok_per_s", "latency p99"."""
    return key[0] if key[1] == "value" else " ".join(key)


def question_text(result: FilesComparison) -> str:
    """Return the question that the comparison answers."""
    others = join_words([side.name for side in result.sides[1:]])
    verb = "is" if len(result.sides) == 2 else "are"
    return f"How {verb} {others} beside {result.baseline.name}?"


def headline(result: FilesComparison, verdict: Verdict) -> str:
    """Return the sentence on one side: its verdict, or the difference alone if its runs are too few."""
    name, comparison = verdict.comparison.treatment, verdict.comparison
    if verdict.kind != "invalid" or comparison.effect is None:
        return f"{name}{verdict_parts(verdict).after_name}"
    row = next((row for row in result.rows[name] if row.key == result.question.key), None)
    change = f" {key_text(result.question.key)} differs by {_change_texts(row)[0]}, and" if row else ""
    return f"{name}:{change} {verdict.reason}."


def build_block(result: FilesComparison, picture: Picture | None = None) -> Block:
    """Return the whole result as a block: verdicts, picture, what was read, other metrics, errors, doubts, limits."""
    verdicts = [headline(result, verdict) for verdict in result.verdicts]
    if result.other_loads:
        verdicts.append(f"The loads differ, and so the sides may: {result.other_loads}.")
    key, margin = key_text(result.question.key), result.question.margin
    decided = f"Decided by {key}, {'margin ' + margin_text(margin) if margin else 'no margin was given'}."
    usual = direction(result.question.key[0])
    if result.question.better != usual:
        decided += f" Against the usual direction, {result.question.better} values are better here, as asked."
    kinds = {verdict.kind for verdict in result.verdicts}
    parts: list[Content] = [
        scope_nodes(question_text(result), decided),
        answer_box(verdicts[0], *verdicts[1:], kind=kinds.pop() if len(kinds) == 1 else ""),
        picture,
        Heading("What was read", 2),
        files_table(result),
        *(part for side in result.sides[1:] for part in _metric_parts(result, side)),
    ]
    for title, lines in (
        ("Errors", result.errors),
        ("What could be wrong", _shortened(result.doubts)),
        ("What these files cannot tell", result.limits),
    ):
        parts += [Heading(title, 2), lines_list([f"{line.rstrip('.')}." for line in lines])] if lines else []
    parts.append(provenance_line([("loadbook", version("loadbook")), ("test", _test_text(result))]))
    return Block(*parts)


def _shortened(lines: tuple[str, ...]) -> list[str]:
    more = and_more(len(lines), MAX_LINES)
    return [*lines[:MAX_LINES], *([more] if more else [])]


def _test_text(result: FilesComparison) -> str:
    pairs = {"": "runs are not paired", "name": "runs paired by name", "order": "runs paired by order"}
    methods = dict.fromkeys(METHOD_NAMES.get(str(v.comparison.method), "none") for v in result.verdicts)
    return f"{', '.join(methods)}; {pairs[result.question.pairing]}"


def files_table(result: FilesComparison) -> Table:
    """Return one row for each file: tool, runs, requests, rate, and what is doubtful."""
    columns = [
        Column("Side"), Column("File"), Column("Tool"), Column("Runs", True), Column("Requests", True),
        Column("Rate, 1/s", True), Column("Remarks", wrap=True),
    ]  # fmt: skip
    rows = []
    for side in result.sides:
        for file in side.files:
            read = sum(run.report.parsed is not None for run in file.runs)
            requests = DASH if file.requests is None else f"{file.requests:,}"
            rate = DASH if file.rate is None else f"{file.rate:,.6g}" if file.rate < 1000 else f"{file.rate:,.0f}"
            rows.append(
                [side.name, file.name, ", ".join(file.tools) or DASH, str(read), requests, rate, _remarks(file, result)]
            )
    return Table("Files", columns, rows)


def _remarks(file: FileSummary, result: FilesComparison) -> str:
    """Return names of doubts of a file's runs, whether any does not count, and what was taken off."""
    hits = (hit for run in file.runs for hit in run.hits if is_about(hit, result.question.key))
    names = list(dict.fromkeys(hit.name for hit in hits))
    names += list(dict.fromkeys(f"without {what}" for run in file.runs for what in run.report.taken_off))
    unread = sum(run.report.parsed is None for run in file.runs)
    excluded = sum(run.report.parsed is not None and not run.counts for run in file.runs)
    return "; ".join(
        [*([f"{unread} not read"] if unread else []), *([f"{excluded} not counted"] if excluded else []), *names]
    )


def _metric_parts(result: FilesComparison, side: Side) -> Iterator[Content]:
    """Yield heading and table of the metrics of one side beside the baseline."""
    rows = [[key_text(row.key), *_values_text(row), *_change_texts(row)] for row in result.rows[side.name]]
    if not rows:
        return
    base = result.baseline.name
    columns = [
        Column("Metric"), Column(f"{base}, median", True), Column(f"{side.name}, median", True),
        Column("Change", True), Column(f"95{NBSP}% interval", True),
    ]  # fmt: skip
    yield Heading(f"{side.name} beside {base}", 2)
    caption = "The first line decides; the others are beside it, and no verdicts." if len(rows) > 1 else ""
    yield Table(f"Metrics of {side.name}", columns, rows, caption=caption)


def _values_text(row: MetricRow) -> list[str]:
    unit = get_metric(row.key[0]).unit
    return [format_quantity(value, unit) for value in (row.base, row.own)]


def _change_texts(row: MetricRow) -> tuple[str, str]:
    """Return the change of a metric and its interval; without an interval the change has one decimal."""
    comparison = row.comparison
    if comparison.effect is None or comparison.ci95 is None:
        return DASH if comparison.effect is None else format_percent(comparison.effect, 1), DASH
    texts = comparison_texts(decide_verdict(comparison, 0.0))
    return texts.change, texts.interval


def to_json(result: FilesComparison) -> dict[str, Any]:
    """Return the result as JSON objects; effects and ends of intervals are ratios minus 1, values in base units."""
    question = result.question
    return {
        "baseline": result.baseline.name,
        "metric": question.key[0],
        "statistic": question.key[1],
        "margin": question.margin or None,
        "better": question.better,
        "pairing": question.pairing or None,
        "sides": [
            {"name": side.name, "runs": [_run_json(run, question.key) for run in side.runs]} for side in result.sides
        ],
        "comparisons": [_comparison_json(result, verdict) for verdict in result.verdicts],
        "other_loads": result.other_loads or None,
        "errors": list(result.errors),
        "doubts": list(result.doubts),
        "limits": list(result.limits),
    }


def _run_json(run: Run, key: tuple[str, str]) -> dict[str, Any]:
    report = run.report
    return {
        "report": report.name, "tool": report.tool or None, "counts": run.counts, "error": report.error or None,
        "value": run.values.get(key), "requests": run.values.get(("requests", "count")),
        "taken_off": list(report.taken_off), "doubts": [{"name": hit.name, "message": hit.message} for hit in run.hits],
    }  # fmt: skip


def _comparison_json(result: FilesComparison, verdict: Verdict) -> dict[str, Any]:
    comparison, forecast = verdict.comparison, verdict.forecast
    return {
        "side": comparison.treatment, "against": comparison.baseline, "verdict": verdict.kind,
        "runs": list(comparison.runs or ()) or None, "pairs": None if comparison.runs else comparison.blocks,
        "method": comparison.method, "effect": comparison.effect, "ci95": comparison.ci95, "ci90": comparison.ci90,
        "p": comparison.p, "p_adjusted": comparison.p_adjusted, "flags": list(comparison.flags),
        "more_runs": [forecast.low, forecast.high] if forecast and forecast.about is not None else None,
        "sentence": terminal_verdict(verdict),
        "metrics": [
            {"metric": row.key[0], "statistic": row.key[1], "baseline_median": row.base, "median": row.own,
             "effect": row.comparison.effect, "ci95": row.comparison.ci95}
            for row in result.rows[comparison.treatment]
        ],
    }  # fmt: skip


def write_page(result: FilesComparison, path: Path) -> None:
    """Write the result as an HTML page without scripts and links out."""
    from loadbook.analyses.compare_files.figure import RunsFigure  # imports matplotlib

    figure = RunsFigure(result)
    block = build_block(result, Picture(figure) if figure.sides else None).html.replace(palette.notebook_style(), "")
    html.write_page(path, path.name, "block.html.j2", title=question_text(result), block=block)
