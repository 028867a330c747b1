"""What figure 13 compares: each published claim, what is wrong with it, and our row beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import level
from loadbook.design.study import Claim, Study
from loadbook.report.figures.text import drawable
from loadbook.stats.result import Analysis, Row

CEILING = 0.98  # of the offered rate: the tool's limit, not the server's (gates.md)
Direct = Mapping[str, Analysis]  # treatment that claims compare with -> the analysis against it
_UNITS = {"requests_per_s": " req/s", "ok_per_s": " req/s"}


FATES = {
    "both": "reproduced in direction and size",
    "direction only": "reproduced in direction, not in size",
    "direction not": "not reproduced, not even in direction",
    "blind": "without evidence either way (both values lie at the offered rate)",
    "open": "undecided here",
    "absent": "not compared here",
}


@dataclass(frozen=True)
class Line:
    """One claim: its words and numbers, its ratio minus 1, what is wrong with it, and the row that stands beside.

    `at_ceiling`: its value lies at the offered rate; `no_evidence`: both values do; `absent`: why there is no row.
    """

    title: str
    numbers: str
    effect: float | None
    at_ceiling: bool
    no_evidence: bool
    row: Row | None
    absent: str = ""


def lines_of(study: Study, analysis: Analysis, direct: Direct | None = None) -> list[Line]:
    """Return the study's claims in the order of its file; `direct` are the analyses against `other_baselines`."""
    claims = study.published.claims if study.published else ()
    return [_line(study, analysis, direct or {}, claim) for claim in claims]


def other_baselines(study: Study, analysis: Analysis) -> list[str]:
    """Return the treatments of this run that claims compare with instead of the analysis' baseline."""
    ran = {row.treatment for row in analysis.rows}
    claims = study.published.claims if study.published else ()
    wanted = {claim.against for claim in claims if claim.treatment in ran}
    return sorted(name for name in wanted & ran if not _is_baseline(study, analysis, name))


def _is_baseline(study: Study, analysis: Analysis, name: str) -> bool:
    return name in study.treatments and study.levels_of(name) == study.levels_of(analysis.baseline)


def _line(study: Study, analysis: Analysis, direct: Direct, claim: Claim) -> Line:
    usable = claim.value > 0 and claim.against_value > 0
    effect = claim.value / claim.against_value - 1 if usable else None
    ceiling = CEILING * claim.offered_per_s if claim.offered_per_s else math.inf
    high, both = claim.value >= ceiling, min(claim.value, claim.against_value) >= ceiling
    row, absent = _row(study, analysis, direct, claim)
    return Line(drawable(claim.claim, claim.treatment), _number_text(claim), effect, high, both, row, absent)


def _row(study: Study, analysis: Analysis, direct: Direct, claim: Claim) -> tuple[Row | None, str]:
    """Return the row that compares what the claim compares, on the same blocks, or why there is none."""
    if metric_of(claim.metric).kind != metric_of(analysis.metric).kind:
        return None, "another quantity here"
    own = _is_baseline(study, analysis, claim.against)
    against = analysis if own else direct.get(claim.against)
    ran = {row.treatment for row in analysis.rows}
    if claim.treatment not in ran or not (own or claim.against in ran):
        return None, "not run in this subset" if study.subsets else "not run here"
    row = next((r for r in against.rows if r.treatment == claim.treatment and r.verdict), None) if against else None
    if against is None or row is None or row.verdict is None or row.verdict.comparison.baseline != against.baseline:
        return None, "not compared here"
    return row, ""


def _number_text(claim: Claim) -> str:
    """Return "17,688 → 23,872 req/s; errors 62,488 → 7,754"."""
    unit = _UNITS.get(claim.metric, f" {metric_of(claim.metric).unit}" if metric_of(claim.metric).unit != "1" else "")
    text = f"{level(claim.against_value)} → {level(claim.value)}{unit}"
    if claim.errors is not None or claim.against_errors is not None:
        before, after = ("–" if e is None else f"{e:,}" for e in (claim.against_errors, claim.errors))
        text += f"; errors {before} → {after}"
    return text


def compared(line: Line) -> bool:
    """Say whether ours has an effect to draw."""
    verdict = line.row.verdict if line.row else None
    return verdict is not None and verdict.kind != "invalid" and verdict.comparison.effect is not None


def fate(line: Line, margin: float) -> str:
    """Return how one claim fares here, a key of `FATES`: direction first, then size."""
    if line.no_evidence:
        return "blind"
    verdict = line.row.verdict if line.row and compared(line) else None
    if verdict is None or line.effect is None:
        return "absent"
    if verdict.kind == "undecided":
        return "open"
    kind, comparison, claims_change = verdict.kind, verdict.comparison, abs(line.effect) > margin
    if kind in ("equivalent", "small"):
        return "direction not" if claims_change else "both"
    if not claims_change or (comparison.effect or 0) * line.effect < 0:
        return "direction not"
    low, high = comparison.ci95 or (0.0, 0.0)
    reached = low <= line.effect <= high or (line.at_ceiling and abs(comparison.effect or 0) > abs(line.effect))
    return "both" if reached else "direction only"
