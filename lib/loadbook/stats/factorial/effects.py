"""One run of a factorial study -> the effect of every factor and of every pair (statistics.md 3.6).

Each effect is one contrast per block (mean of the combinations with + less mean of those with -), so that its blocks
are judged like any paired difference: Student's t for 5 to 7 blocks, signed ranks from 8. A main effect is the change
from low to high with all else averaged; a pair's is the change that one factor's effect undergoes when the other is
high. Effects are ratios minus 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from loadbook.design.factorial import Design, design_of, level_texts, switch_label
from loadbook.stats.analyse import analyse
from loadbook.stats.compare import MIN_BLOCKS, MIN_RANK_BLOCKS
from loadbook.stats.factorial.anova import Pooled, pooled
from loadbook.stats.factorial.corners import corners
from loadbook.stats.factorial.effect_tests import tested, three_together
from loadbook.stats.pairs import complete_blocks, ratio
from loadbook.stats.question import Question, RunTables, ask
from loadbook.stats.result import VERDICT_ORDER, Analysis, Comparison, ErrorSummary, Interval, Row, Verdict
from loadbook.stats.swaps import Floats
from loadbook.stats.verdict import decide, excludes_zero
from loadbook.stats.wording.shown import common_decimals

if TYPE_CHECKING:
    from loadbook.design.study import Study

NOT_WHOLE = "the run holds {there} of the {all} combinations, and a factorial needs all of them"
DISAGREE = "with the scatter pooled over all effects its interval {does} 0; combinations may scatter differently"
LEFT_OUT = "blocks left out, in which not all {cells} combinations count: {blocks}"


@dataclass(frozen=True)
class Effect:
    """One main effect (one name) or pair (two): what may be said of it, and the pooled analysis beside it.

    `aliases` are the effects that this design cannot tell from it. `pooled` holds ratios minus 1, like the verdict.
    """

    names: tuple[str, ...]
    label: str
    aliases: tuple[str, ...]
    verdict: Verdict
    pooled: Pooled | None = None

    @property
    def agrees(self) -> bool:
        """Whether both analyses say alike whether 0 is excluded."""
        own = self.verdict.comparison.ci95
        return own is None or self.pooled is None or excludes_zero(own) == excludes_zero(self.pooled.interval)


@dataclass(frozen=True)
class Switch:
    """How readers meet a factor or group: what its high level is called, and both levels as an axis has them."""

    label: str
    low: str
    high: str


@dataclass(frozen=True)
class Meeting:
    """Where two factors meet.

    `values`: levels of both (high or not) -> value of the metric with its interval within blocks. `given`: whether the
    second is high -> what the first does then, ratio minus 1, with its interval.
    """

    effect: Effect
    values: Mapping[tuple[bool, bool], tuple[float, Interval]]
    given: Mapping[bool, tuple[float, Interval | None]]


@dataclass(frozen=True)
class FactorialAnalysis:
    """The answer to a factorial study: `mains` and `pairs` in the order in which they are shown.

    `analysis` holds the main effects as rows of a usual analysis, with the baseline and the checks of the laboratory,
    so that whatever shows one can show them. `adjusted` says how p was adjusted for all effects together. `three` names
    effects of three and more factors that are shown, against what the design supposes.
    """

    design: Design
    switches: Mapping[str, Switch]
    analysis: Analysis
    mains: tuple[Effect, ...]
    pairs: tuple[Effect, ...]
    meetings: tuple[Meeting, ...]
    blocks: int
    adjusted: str
    three: tuple[str, ...] = ()

    @property
    def effects(self) -> tuple[Effect, ...]:
        """All effects, main effects first."""
        return self.mains + self.pairs

    @property
    def trials(self) -> int:
        """Trials that the effects rest on."""
        return self.blocks * len(self.design.cells)


def one_at_a_time(design: Design, trials: int) -> int:
    """Return how many trials give the same certainty about main effects one factor at a time (statistics.md 3.1).

    A factorial uses all its trials for every effect: variance 4 s^2 / trials. One at a time, each arm of k + 1 is
    compared with the baseline: 2 s^2 / blocks.
    """
    return math.ceil(trials / 2) * (len(design.names) + 1)


def analyse_factorial(
    data: RunTables, *, metric: str | None = None, level: float = 0.95, margin: float | None = None
) -> FactorialAnalysis | None:
    """Answer a factorial study on one metric; None for a study without [factorial].

    Only blocks count in which every combination has a valid value. p is adjusted for all effects together: from 8
    blocks step-down over relabellings that the random order within blocks allows, below by Holm.
    """
    study = data.study
    if study.factorial is None:
        return None
    base = analyse(data, metric=metric, level=level, margin=margin)
    asked, design = ask(data, None, metric, None, margin, level), design_of(study.factorial)
    cells = design.treatments(study.baseline)
    logs, excluded = _complete(asked, list(cells))
    flags = (LEFT_OUT.format(blocks=excluded, cells=len(cells)),) if excluded else ()
    found = tested(
        design, logs, asked.level, baseline=asked.baseline, metric=asked.metric, statistic=asked.statistic,
        excluded=excluded, flags=flags, added=base.stand.added,
    )  # fmt: skip
    effects = _effects(asked, design, found, _fitted(design, logs, asked.level), _reason(base, cells))
    mains, pairs = ([e for e in effects if len(e.names) == n] for n in (1, 2))
    return FactorialAnalysis(
        design=design,
        switches={name: _switch(study, name) for name in design.names},
        analysis=replace(base, rows=_rows(base, mains), best=None, tied_with_best=(), ties_lead=False),
        mains=tuple(mains),
        pairs=tuple(pairs),
        meetings=tuple(Meeting(e, *corners(design, logs, e.names, asked.level)) for e in pairs if _acts(e)),
        blocks=len(logs),
        adjusted="joint step-down" if len(logs) >= MIN_RANK_BLOCKS else "Holm",
        three=three_together(design, logs, asked.level) if _reason(base, cells) is None else (),
    )


def _switch(study: Study, name: str) -> Switch:
    return Switch(switch_label(study, name), *level_texts(study, name))


def _complete(asked: Question, treatments: list[str]) -> tuple[Floats, int]:
    """Return logs of values, complete blocks by combinations, and how many blocks of the plan are not complete."""
    rows = asked.values[asked.values["treatment"].isin(treatments)]
    table = complete_blocks(rows, treatments)
    planned = max(asked.blocks or 0, rows["block"].nunique())
    return np.log(table.to_numpy(float)), planned - len(table)


def _fitted(design: Design, logs: Floats, level: float) -> list[Pooled | None]:
    """Return the pooled analysis of every effect as ratios minus 1; None below 5 blocks."""
    if len(logs) < MIN_BLOCKS:
        return [None] * len(design.effects)
    factors = range(len(design.names))
    levels = np.array([[1.0 if cell >> k & 1 else -1.0 for k in factors] for cell in design.cells])
    terms = [[k for k in factors if alike[0] >> k & 1] for alike in design.effects]
    found = pooled(logs, levels, terms, level)
    return [Pooled(ratio(p.estimate), (ratio(p.interval[0]), ratio(p.interval[1])), p.p) for p in found]


def _reason(base: Analysis, cells: Mapping[str, int]) -> str | None:
    """Return why the run answers nothing: the laboratory, a combination that is not there or not comparable."""
    rows = {row.treatment: row for row in base.rows}
    missing = [name for name in cells if name not in rows]
    if missing:
        return NOT_WHOLE.format(there=len(cells) - len(missing), all=len(cells))
    own = (rows[name] for name in cells)
    invalid = (row for row in own if row.verdict and row.verdict.kind == "invalid")
    return next((row.verdict.reason if base.laboratory else f"{row.label}: {row.verdict.reason}"
                 for row in invalid if row.verdict), None)  # fmt: skip


def _effects(
    asked: Question,
    design: Design,
    tested: Sequence[Comparison],
    fitted: Sequence[Pooled | None],
    reason: str | None,
) -> list[Effect]:
    found = []
    for alike, comparison, beside in zip(design.effects, tested, fitted, strict=True):
        names = design.switches(alike[0])
        label = switch_label(asked.study, names[0]) if len(names) == 1 else design.name(alike[0])
        effect = Effect(names, label, tuple(design.name(e) for e in alike[1:]),
                        decide(comparison, asked.margin, asked.better, reason=reason), beside)  # fmt: skip
        found.append(effect if effect.agrees else _flagged(effect))
    return [_with_decimals(e, common_decimals(c for c in tested)) for e in sorted(found, key=_place)]


def _flagged(effect: Effect) -> Effect:
    does = "excludes" if effect.pooled and excludes_zero(effect.pooled.interval) else "does not exclude"
    found = effect.verdict.comparison
    said = replace(found, flags=(*found.flags, DISAGREE.format(does=does)))
    return replace(effect, verdict=replace(effect.verdict, comparison=said))


def _with_decimals(effect: Effect, decimals: int | None) -> Effect:
    return replace(effect, verdict=replace(effect.verdict, decimals=decimals))


def _place(effect: Effect) -> tuple[int, int, float]:
    found = effect.verdict
    return len(effect.names), VERDICT_ORDER.index(found.kind), -abs(math.log1p(found.comparison.effect or 0.0))


def _acts(effect: Effect) -> bool:
    """Whether a pair's interval excludes 0, whatever the family says: worth a picture."""
    interval = effect.verdict.comparison.ci95
    return effect.verdict.kind != "invalid" and interval is not None and excludes_zero(interval)


def _rows(base: Analysis, mains: Sequence[Effect]) -> tuple[Row, ...]:
    return (*base.of_kind("baseline"), *map(as_row, mains), *base.of_kind("aa", "control"))


def as_row(effect: Effect) -> Row:
    """Return an effect as the row of an analysis, for what draws rows; its errors are counted elsewhere."""
    name = effect.verdict.comparison.treatment
    return Row(name, effect.label, "treatment", None, None, 0, 0, effect.verdict, ErrorSummary(name, 0, 0, 0, 0, {}))
