"""Conditions and reports -> the study that they answer, as a file that can be read like any other, and its plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from loadbook.core.metrics import get_metric
from loadbook.design.plan import Plan, PlannedTrial
from loadbook.design.problems import suggestion
from loadbook.design.study import Study
from loadbook.trials.imported_csv import Condition, ImportProblem
from loadbook.trials.imported_reports import ToolReport

# a study needs an address that gets the load; nothing is ever sent there
NOT_RECORDED = "not-recorded:1"
DEFAULT_BASELINE, DEFAULT_METRIC = "baseline", "ok_per_s"
# of a study (design/study)
MAX_BLOCKS = 1000
FACTOR_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}\Z")


@dataclass(frozen=True)
class ImportOptions:
    """What the user asks of the outputs; None leaves it to a default."""

    name: str
    baseline: str | None = None
    metric: str | None = None
    margin: float | None = None
    question: str | None = None
    incomplete: bool = False
    aa: str | None = None


def to_valid_name(text: str) -> str:
    """Return a text as a name: letters, digits, '.', '_' and '-', at most 63; empty if nothing of it is left."""
    return re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._-]+", "-", text)).strip("-._")[:63]


def unique_names(texts: Sequence[str]) -> dict[str, str]:
    """Return each text with a name of its own, in order."""
    names: dict[str, str] = {}
    for text in texts:
        stem = name = to_valid_name(text) or "treatment"
        number = 1
        while name in names.values():
            number += 1
            name = f"{stem[:58]}-{number}"
        names[text] = name
    return names


def block_numbers(reports: Sequence[ToolReport]) -> dict[str, int]:
    """Return each block's number: its own where all are whole numbers from 1 to 1000, else by first appearance."""
    texts = list(dict.fromkeys(r.condition.block for r in reports))
    numbers = {
        text: int(text)
        for text in texts
        if text.isascii() and text.isdecimal() and len(text) < 10 and 0 < int(text) <= MAX_BLOCKS
    }
    if len(numbers) == len(texts) == len(set(numbers.values())):
        return numbers
    return {text: number for number, text in enumerate(texts, 1)}


def condition_problems(options: ImportOptions, conditions: Sequence[Condition], *, whole: bool) -> Iterator[ImportProblem]:
    """Yield why conditions make no study: treatments, blocks, factors; blocks may lack rows unless `whole`."""
    treatments = list(dict.fromkeys(c.treatment for c in conditions))
    if len(treatments) == 1 and whole:
        yield ImportProblem(0, f"there is only the treatment {treatments[0]!r}, nothing to compare it with")
    baseline = find_treatment(options.baseline or DEFAULT_BASELINE, treatments)
    if baseline is None and treatments:
        which = "no baseline was given" if options.baseline is None else f"no treatment {options.baseline!r}"
        yield ImportProblem(0, f"{which}; say by --baseline which one the others are compared with: {', '.join(treatments)}")
    if options.aa is not None and find_treatment(options.aa, treatments) in (None, baseline):
        yield ImportProblem(0, f"--aa {options.aa!r} is no treatment beside the baseline: {', '.join(treatments)}")
    yield from _aa_problems(conditions, baseline, find_treatment(options.aa or "", treatments))
    yield from _block_problems(conditions, treatments if whole and not options.incomplete else [])
    yield from _factor_problems(conditions)


def report_problems(options: ImportOptions, reports: Sequence[ToolReport]) -> Iterator[ImportProblem]:
    """Yield why reports do not answer what is asked: no such metric, no known rate."""
    measured = frozenset[str]().union(*(r.metrics for r in reports))
    metric = options.metric or DEFAULT_METRIC
    if measured and metric not in measured:
        yield ImportProblem(0, f"no report has the metric {metric}{suggestion(metric, sorted(measured))}; choose one by --metric")
    for report in reports:
        if report.is_open and report.offered_per_s is None:
            text = f"{report.condition.file} does not say at which rate {report.tool} sent requests"
            yield ImportProblem(report.condition.line, f"{text}: add a column 'command' or 'offered_per_s'")


def _aa_problems(conditions: Sequence[Condition], baseline: str | None, aa_arm: str | None) -> Iterator[ImportProblem]:
    factors = {c.treatment: c.factors for c in conditions}
    if aa_arm is not None and baseline is not None and factors[aa_arm] != factors[baseline]:
        line = next(c.line for c in conditions if c.treatment == aa_arm)
        yield ImportProblem(line, f"{aa_arm!r} has other factors than {baseline!r}, so it is not the baseline once more (--aa)")


def find_treatment(wanted: str, treatments: Sequence[str]) -> str | None:
    """Return the treatment that is meant, as the file has it: by its text or by its name; None if there is none."""
    return next((text for text, name in unique_names(treatments).items() if wanted in (text, name)), None)


def _block_problems(conditions: Sequence[Condition], treatments: Sequence[str]) -> Iterator[ImportProblem]:
    lines_by_block: dict[str, dict[str, int]] = {}
    for condition in conditions:
        lines = lines_by_block.setdefault(condition.block, {})
        if lines.setdefault(condition.treatment, condition.line) != condition.line:
            text = f"a second row of treatment {condition.treatment!r} in block {condition.block!r}, after line"
            yield ImportProblem(condition.line, f"{text} {lines[condition.treatment]}: number the blocks through")
    for block, lines in lines_by_block.items():
        missing = [name for name in treatments if name not in lines]
        if missing:
            text = f"block {block!r} has no row of {', '.join(missing)}"
            yield ImportProblem(min(lines.values()), f"{text}: if these were not measured, say --incomplete")
    if len(lines_by_block) > MAX_BLOCKS:
        yield ImportProblem(0, f"{len(lines_by_block):,} blocks: a study has at most {MAX_BLOCKS:,}")


def _factor_problems(conditions: Sequence[Condition]) -> Iterator[ImportProblem]:
    levels: dict[tuple[str, str], tuple[str, int]] = {}
    for condition in conditions:
        for factor, level in condition.factors.items():
            if not FACTOR_NAME.match(factor):
                yield ImportProblem(0, f"factor {factor!r}: use small letters, digits and '_', a letter first")
            if not level:
                yield ImportProblem(condition.line, f"no level of {factor}")
            first, line = levels.setdefault((condition.treatment, factor), (level, condition.line))
            if first != level:
                text = f"{condition.treatment!r} has {factor} = {level!r}, in line {line} it has {first!r}"
                yield ImportProblem(condition.line, f"{text}: a treatment is one combination of levels")


def study_text(options: ImportOptions, reports: Sequence[ToolReport]) -> str:
    """Return the study file of reports that have no problems."""
    names = unique_names(list(dict.fromkeys(r.condition.treatment for r in reports)))
    baseline = find_treatment(options.baseline or DEFAULT_BASELINE, list(names)) or ""
    aa_arm = find_treatment(options.aa, list(names)) if options.aa else None
    metric = get_metric(options.metric or DEFAULT_METRIC)
    varied = _varied_factors(reports)
    loads = {text: _load_settings([r for r in reports if r.condition.treatment == text]) for text in names}
    lines = [
        "# made by loadbook import from a file of conditions; nothing in it was measured or checked by loadbook",
        "schema = 1",
        _toml_line("name", options.name),
        _toml_line("question", options.question or _default_question(metric.better, baseline)),
        _toml_line("metric", metric.name),
        _toml_line("baseline", names[baseline]),
        _toml_line("margin", options.margin or metric.margin),
        _toml_line("blocks", len(block_numbers(reports))),
        "\n[roles.driver]",
        "\n[roles.web]",
        _toml_line("external", NOT_RECORDED),
        "\n[workload]",
        *(_toml_line(key, value) for key, value in loads[baseline].items()),
    ]
    for factor, levels in varied.items():
        lines += [f"\n[factors.{factor}]", _toml_line("levels", levels)]
    for text, name in names.items():
        factors = next(r.condition.factors for r in reports if r.condition.treatment == text)
        lines += [f"\n[treatments.{json.dumps(name)}]", *([_toml_line("label", text)] if text != name else [])]
        if text == aa_arm:
            lines += [_toml_line("same_as", names[baseline]), _toml_line("check", "aa")]
            continue
        lines += [_toml_line(f"set.{factor}", factors[factor]) for factor in varied]
        other = {key: value for key, value in loads[text].items() if loads[baseline].get(key) != value}
        lines += [_toml_line(f"workload.{key}", value) for key, value in other.items()]
    return "\n".join(lines) + "\n"


def _toml_line(key: str, value: Any) -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def _default_question(better: str | None, baseline: str) -> str:
    verb = "is better than" if better else "differs from"
    return f"Which treatment {verb} {baseline[:60]}?"


def _varied_factors(reports: Sequence[ToolReport]) -> dict[str, list[str]]:
    """Return the factors that differ between treatments with their levels."""
    levels: dict[str, list[str]] = {}
    for report in reports:
        for factor, level in report.condition.factors.items():
            levels.setdefault(factor, []).append(level)
    return {factor: list(dict.fromkeys(values)) for factor, values in levels.items() if len(set(values)) > 1}


def constant_factors(reports: Sequence[ToolReport]) -> list[str]:
    """Return the factors that are the same everywhere, which make no study."""
    return [factor for factor in reports[0].condition.factors if factor not in _varied_factors(reports)]


def _load_settings(reports: Sequence[ToolReport]) -> dict[str, Any]:
    """Return what is known of a treatment's load."""
    rates = [r.offered_per_s for r in reports if r.offered_per_s is not None]
    load: dict[str, Any] = {"model": "open", "rate_per_s": median(rates)} if rates else {"model": "closed"}
    return {"tool": reports[0].tool} | load


def import_plan(study: Study, reports: Sequence[ToolReport]) -> tuple[Plan, list[tuple[PlannedTrial, ToolReport]]]:
    """Return the plan in the order of execution as far as it is known, and each trial's report.

    The order is that of the times where all rows have one, else that of the file; what an incomplete block lacks
    is planned last. No seed: the order was not drawn by loadbook.
    """
    names = unique_names(list(dict.fromkeys(r.condition.treatment for r in reports)))
    blocks = block_numbers(reports)
    timed = all(r.condition.started is not None for r in reports)
    ordered = sorted(reports, key=lambda r: r.condition.started or 0.0) if timed else list(reports)
    done = [(names[r.condition.treatment], blocks[r.condition.block]) for r in ordered]
    missing = [(n, b) for b in sorted(blocks.values()) for n in names.values() if (n, b) not in set(done)]
    trials = tuple(PlannedTrial(f"t{i:04d}", name, block, i) for i, (name, block) in enumerate(done + missing, 1))
    plan = Plan(study, "default", None, len(blocks), tuple(names.values()), trials)
    return plan, list(zip(trials, ordered, strict=False))
