"""Conditions and reports -> the study that they answer, as a file that can be read like any other, and its plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from loadbook.core.metrics import metric as metric_of
from loadbook.design.plan import Plan, PlannedTrial
from loadbook.design.problems import suggest
from loadbook.design.study import Study
from loadbook.trials.imported_csv import Condition, Wrong
from loadbook.trials.imported_reports import Report

# a study needs an address that gets the load; nothing is ever sent there
NOT_RECORDED = "not-recorded:1"
BASELINE, METRIC = "baseline", "ok_per_s"
# of a study (design/study)
MAX_BLOCKS = 1000
IDENT = re.compile(r"[a-z][a-z0-9_]{0,40}\Z")


@dataclass(frozen=True)
class Asked:
    """What the user asks of the outputs; None leaves it to a default."""

    name: str
    baseline: str | None = None
    metric: str | None = None
    margin: float | None = None
    question: str | None = None
    incomplete: bool = False
    aa: str | None = None


def name_of(text: str) -> str:
    """Return a text as a name: letters, digits, '.', '_' and '-', at most 63; empty if nothing of it is left."""
    return re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._-]+", "-", text)).strip("-._")[:63]


def names_of(texts: Sequence[str]) -> dict[str, str]:
    """Return each text with a name of its own, in order."""
    found: dict[str, str] = {}
    for text in texts:
        stem = name = name_of(text) or "treatment"
        number = 1
        while name in found.values():
            number += 1
            name = f"{stem[:58]}-{number}"
        found[text] = name
    return found


def blocks_of(reports: Sequence[Report]) -> dict[str, int]:
    """Return each block's number: its own where all are whole numbers from 1 to 1000, else by first appearance."""
    texts = list(dict.fromkeys(r.condition.block for r in reports))
    own = {
        text: int(text)
        for text in texts
        if text.isascii() and text.isdecimal() and len(text) < 10 and 0 < int(text) <= MAX_BLOCKS
    }
    if len(own) == len(texts) == len(set(own.values())):
        return own
    return {text: number for number, text in enumerate(texts, 1)}


def condition_problems(asked: Asked, said: Sequence[Condition], *, whole: bool) -> Iterator[Wrong]:
    """Yield why conditions make no study: treatments, blocks, factors; blocks may lack rows unless `whole`."""
    treatments = list(dict.fromkeys(c.treatment for c in said))
    if len(treatments) == 1 and whole:
        yield Wrong(0, f"there is only the treatment {treatments[0]!r}, nothing to compare it with")
    baseline = treatment_of(asked.baseline or BASELINE, treatments)
    if baseline is None and treatments:
        which = "no baseline was given" if asked.baseline is None else f"no treatment {asked.baseline!r}"
        yield Wrong(0, f"{which}; say by --baseline which one the others are compared with: {', '.join(treatments)}")
    if asked.aa is not None and treatment_of(asked.aa, treatments) in (None, baseline):
        yield Wrong(0, f"--aa {asked.aa!r} is no treatment beside the baseline: {', '.join(treatments)}")
    yield from _twin_problems(said, baseline, treatment_of(asked.aa or "", treatments))
    yield from _block_problems(said, treatments if whole and not asked.incomplete else [])
    yield from _factor_problems(said)


def report_problems(asked: Asked, reports: Sequence[Report]) -> Iterator[Wrong]:
    """Yield why reports do not answer what is asked: no such metric, no known rate."""
    measured = frozenset[str]().union(*(r.metrics for r in reports))
    metric = asked.metric or METRIC
    if measured and metric not in measured:
        yield Wrong(0, f"no report has the metric {metric}{suggest(metric, sorted(measured))}; choose one by --metric")
    for report in reports:
        if report.is_open and report.offered_per_s is None:
            text = f"{report.condition.file} does not say at which rate {report.tool} sent requests"
            yield Wrong(report.condition.line, f"{text}: add a column 'command' or 'offered_per_s'")


def _twin_problems(said: Sequence[Condition], baseline: str | None, twin: str | None) -> Iterator[Wrong]:
    factors = {c.treatment: c.factors for c in said}
    if twin is not None and baseline is not None and factors[twin] != factors[baseline]:
        line = next(c.line for c in said if c.treatment == twin)
        yield Wrong(line, f"{twin!r} has other factors than {baseline!r}, so it is not the baseline once more (--aa)")


def treatment_of(wanted: str, treatments: Sequence[str]) -> str | None:
    """Return the treatment that is meant, as the file has it: by its text or by its name; None if there is none."""
    return next((text for text, name in names_of(treatments).items() if wanted in (text, name)), None)


def _block_problems(said: Sequence[Condition], wanted: Sequence[str]) -> Iterator[Wrong]:
    there: dict[str, dict[str, int]] = {}
    for one in said:
        lines = there.setdefault(one.block, {})
        if lines.setdefault(one.treatment, one.line) != one.line:
            text = f"a second row of treatment {one.treatment!r} in block {one.block!r}, after line"
            yield Wrong(one.line, f"{text} {lines[one.treatment]}: number the blocks through")
    for block, lines in there.items():
        missing = [name for name in wanted if name not in lines]
        if missing:
            text = f"block {block!r} has no row of {', '.join(missing)}"
            yield Wrong(min(lines.values()), f"{text}: if these were not measured, say --incomplete")
    if len(there) > MAX_BLOCKS:
        yield Wrong(0, f"{len(there):,} blocks: a study has at most {MAX_BLOCKS:,}")


def _factor_problems(said: Sequence[Condition]) -> Iterator[Wrong]:
    levels: dict[tuple[str, str], tuple[str, int]] = {}
    for one in said:
        for factor, level in one.factors.items():
            if not IDENT.match(factor):
                yield Wrong(0, f"factor {factor!r}: use small letters, digits and '_', a letter first")
            if not level:
                yield Wrong(one.line, f"no level of {factor}")
            first, line = levels.setdefault((one.treatment, factor), (level, one.line))
            if first != level:
                text = f"{one.treatment!r} has {factor} = {level!r}, in line {line} it has {first!r}"
                yield Wrong(one.line, f"{text}: a treatment is one combination of levels")


def study_text(asked: Asked, reports: Sequence[Report]) -> str:
    """Return the study file of reports that have no problems."""
    names = names_of(list(dict.fromkeys(r.condition.treatment for r in reports)))
    baseline = treatment_of(asked.baseline or BASELINE, list(names)) or ""
    twin = treatment_of(asked.aa, list(names)) if asked.aa else None
    metric = metric_of(asked.metric or METRIC)
    varied = _varied(reports)
    loads = {text: _load([r for r in reports if r.condition.treatment == text]) for text in names}
    lines = [
        "# made by loadbook import from a file of conditions; nothing in it was measured or checked by loadbook",
        "schema = 1",
        _line("name", asked.name),
        _line("question", asked.question or _question(metric.better, baseline)),
        _line("metric", metric.name),
        _line("baseline", names[baseline]),
        _line("margin", asked.margin or metric.margin),
        _line("blocks", len(blocks_of(reports))),
        "\n[roles.driver]",
        "\n[roles.web]",
        _line("external", NOT_RECORDED),
        "\n[workload]",
        *(_line(key, value) for key, value in loads[baseline].items()),
    ]
    for factor, levels in varied.items():
        lines += [f"\n[factors.{factor}]", _line("levels", levels)]
    for text, name in names.items():
        own = next(r.condition.factors for r in reports if r.condition.treatment == text)
        lines += [f"\n[treatments.{json.dumps(name)}]", *([_line("label", text)] if text != name else [])]
        if text == twin:
            lines += [_line("same_as", names[baseline]), _line("check", "aa")]
            continue
        lines += [_line(f"set.{factor}", own[factor]) for factor in varied]
        other = {key: value for key, value in loads[text].items() if loads[baseline].get(key) != value}
        lines += [_line(f"workload.{key}", value) for key, value in other.items()]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any) -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def _question(better: str | None, baseline: str) -> str:
    verb = "is better than" if better else "differs from"
    return f"Which treatment {verb} {baseline[:60]}?"


def _varied(reports: Sequence[Report]) -> dict[str, list[str]]:
    """Return the factors that differ between treatments with their levels."""
    levels: dict[str, list[str]] = {}
    for report in reports:
        for factor, level in report.condition.factors.items():
            levels.setdefault(factor, []).append(level)
    return {factor: list(dict.fromkeys(own)) for factor, own in levels.items() if len(set(own)) > 1}


def constant_factors(reports: Sequence[Report]) -> list[str]:
    """Return the factors that are the same everywhere, which make no study."""
    return [factor for factor in reports[0].condition.factors if factor not in _varied(reports)]


def _load(reports: Sequence[Report]) -> dict[str, Any]:
    """Return what is known of a treatment's load."""
    rates = [r.offered_per_s for r in reports if r.offered_per_s is not None]
    load: dict[str, Any] = {"model": "open", "rate_per_s": median(rates)} if rates else {"model": "closed"}
    return {"tool": reports[0].tool} | load


def plan_of(study: Study, reports: Sequence[Report]) -> tuple[Plan, list[tuple[PlannedTrial, Report]]]:
    """Return the plan in the order of execution as far as it is known, and each trial's report.

    The order is that of the times where all rows have one, else that of the file; what an incomplete block lacks
    is planned last. No seed: the order was not drawn by loadbook.
    """
    names = names_of(list(dict.fromkeys(r.condition.treatment for r in reports)))
    blocks = blocks_of(reports)
    timed = all(r.condition.started is not None for r in reports)
    ordered = sorted(reports, key=lambda r: r.condition.started or 0.0) if timed else list(reports)
    done = [(names[r.condition.treatment], blocks[r.condition.block]) for r in ordered]
    missing = [(n, b) for b in sorted(blocks.values()) for n in names.values() if (n, b) not in set(done)]
    trials = tuple(PlannedTrial(f"t{i:04d}", name, block, i) for i, (name, block) in enumerate(done + missing, 1))
    plan = Plan(study, "default", None, len(blocks), tuple(names.values()), trials)
    return plan, list(zip(trials, ordered, strict=False))
