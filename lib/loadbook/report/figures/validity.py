"""Figure of validity rules by trial: how many trials are valid, and whether hits cluster in time or treatments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

import pandas as pd
from matplotlib.axes import Axes

from loadbook.core.units import pluralize
from loadbook.core.validity_rules import lower_first
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.report.figures.rows import Cell, Row, RowsDrawing
from loadbook.store.tables import RunData

LEVELS = ("invalid", "doubt", "note", "unchecked")
WORDS = {"invalid": "not counted", "doubt": "doubt", "note": "note", "unchecked": "not checked"}
SIGNS = {"invalid": "✕ ", "doubt": "! "}
ROW_IN, HALF_HATCH_IN, HEAD_IN = 0.28, 0.09, 0.1
NAME_LETTERS, RESULT_LETTERS, REASON_LETTERS = 36, 32, 52
MOST_CLEAN = 8  # largest number of rows without a hit; if there are more such rules, they are listed below the figure
_MARKERS = {
    "invalid": {"marker": "x", "color": palette.INK, "markersize": 5, "markeredgewidth": 1.5, "zorder": 4},
    "doubt": {"marker": "o", "color": palette.DOUBT, "markersize": 4.5, "markeredgewidth": 0, "zorder": 3},
    "note": {"marker": "o", "color": palette.OTHERS, "markersize": 3, "markeredgewidth": 0, "zorder": 2},
}


@dataclass(frozen=True)
class RuleResult:
    """One row of the figure: the result of one validity rule for each trial and for the whole run.

    Parameters
    ----------
    level : the worst level of the hits; None if the rule has no hit.
    hits : table (trial, level, slot, treatment) of the trials that the rule objects to.
    whole_run : the level of a hit on the whole run; None if there is none.
    unchecked : "not checked: " and the reason why it was not for some trials; None if all were checked.
    unchecked_slots : the slots of the trials for which the rule could not be checked.
    wholly_unchecked : whether the rule could not be checked for any trial.
    counts : (level, words) of each part of the summary: number of trials with hits, or that it is the whole run.
    treatment : the name of the treatment if all of several hits are of one, else "".
    """

    title: str
    level: str | None
    hits: pd.DataFrame
    whole_run: str | None
    unchecked: str | None
    unchecked_slots: tuple[int, ...]
    wholly_unchecked: bool
    counts: tuple[tuple[str, str], ...]
    treatment: str

    def text(self, signs: Mapping[str, str]) -> str:
        """Return the summary of the row; `signs` maps levels to the sign that precedes their part of it."""
        parts = [f"{signs.get(level, '')}{words}" for level, words in self.counts]
        return ", ".join([", ".join(parts) or "0", *([f"all {self.treatment}"] if self.treatment else [])])


class ValidityFigure(base.ReportFigure):
    """One row per validity rule, trials in order of execution; only hits are drawn, so an empty row is a passed rule.

    `trials` and `problems` are the run's tables; `titles` maps rules to their titles, `labels` treatments to names.
    """

    def __init__(
        self, trials: pd.DataFrame, problems: pd.DataFrame, titles: Mapping[str, str],
        labels: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.trials, self.problems, self.titles, self.labels = trials, problems, titles, labels or {}

    @classmethod
    def from_run(cls, run: RunData, titles: Mapping[str, str]) -> Self:
        """Return the figure of a run; `titles` maps every evaluated rule to its title."""
        return cls(run.trials, run.problems, titles, run.study.labels)

    @cached_property
    def results(self) -> list[RuleResult]:
        """The rows: evaluated rules and doubts reported by tools, ordered by worst level, then by number of hits."""
        problems = self.problems[self.problems["level"].isin(LEVELS)]
        others: dict[str, str] = {}
        for name in sorted(set(problems["name"]) - set(self.titles)):
            text = base.drawable(name, "rule").replace("-", " ").replace("_", " ")
            others[name] = text[:1].upper() + text[1:]
        by_rule, clean = dict(iter(problems.groupby("name"))), self._result("", problems.iloc[:0])  # most are clean
        results = [
            self._result(title, by_rule[name]) if name in by_rule else replace(clean, title=title)
            for name, title in (dict(self.titles) | others).items()
        ]
        explained = set(problems.loc[problems["level"] == "invalid", "trial"])
        unexplained = self.trials[~self.trials["valid"] & ~self.trials["trial"].isin(explained)]
        if len(unexplained):
            ended = unexplained[["trial"]].assign(level="invalid", message="did not end as it should")
            results.append(self._result("Trial did not end as it should", ended))
        order = {level: n for n, level in enumerate((*LEVELS, None))}
        return sorted(results, key=lambda result: (order[result.level], -len(result.hits), result.title))

    def _result(self, title: str, problems: pd.DataFrame) -> RuleResult:
        level = next((level for level in LEVELS if (problems["level"] == level).any()), None)
        checked = problems[problems["level"] != "unchecked"]
        trials = self.trials[["trial", "slot", "treatment"]]
        hits = checked.drop_duplicates(["trial", "level"]).merge(trials, on="trial", how="inner")
        of_run = checked.loc[checked["trial"].isna(), "level"]
        whole_run = next((level for level in LEVELS if (of_run == level).any()), None)
        unchecked = problems[problems["level"] == "unchecked"]
        reason = str(unchecked["message"].iloc[0]) if len(unchecked) else None
        everywhere = bool(unchecked["trial"].isna().any()) and hits.empty
        slots = trials["slot"] if everywhere else trials.loc[trials["trial"].isin(unchecked["trial"]), "slot"]
        wholly = bool(reason) and hits.empty and not whole_run and len(slots) == len(trials)
        counts = self._counts_by_level(hits, whole_run, len(slots))
        # a treatment is named if all hits, on at least two trials, are of it
        name, *others = hits["treatment"].unique() if len(hits) else ("",)
        is_common = bool(whole_run or others) or hits["trial"].nunique() < 2 or trials["treatment"].nunique() < 2
        treatment = "" if is_common else base.drawable(self.labels.get(name, name), name)
        return RuleResult(title, level, hits, whole_run, reason, tuple(sorted(slots)), wholly, counts, treatment)

    def _counts_by_level(
        self, hits: pd.DataFrame, whole_run: str | None, unchecked: int
    ) -> tuple[tuple[str, str], ...]:
        """Return (level, words) of each part of a row's summary."""
        if whole_run:
            return ((whole_run, f"{WORDS[whole_run]}: whole run"),)
        numbers = {level: hits.loc[hits["level"] == level, "trial"].nunique() for level in LEVELS}
        levels = [level for level in ("invalid", "doubt") if numbers[level]] or ["note"] * bool(numbers["note"])
        counts = [(level, f"{WORDS[level]}: {numbers[level]}") for level in levels]
        if unchecked:
            wholly = hits.empty and unchecked == len(self.trials)
            counts.append(("unchecked", WORDS["unchecked"] + ("" if wholly else f": {unchecked}")))
        return tuple(counts)

    def _draw(self) -> base.Drawing:
        drawing = RowsDrawing([self._row(one) for one in self.rows], [""], head_lines=0, key_in=HEAD_IN)
        panel = drawing.panels[0]
        panel.set_xlabel(f"block ({pluralize(len(self.trials), 'trial')} in order of execution)")
        if self.trials.empty:
            panel.set_xticks([])
        else:
            axes.set_block_axis(panel, self.trials)
        drawing.figure.suptitle(self._counts, x=0.005, ha="left", size=base.LETTER_PT, weight="bold")
        return drawing

    def _row(self, result: RuleResult) -> Row:
        colour = {"invalid": palette.INK, "doubt": palette.DOUBT_TEXT}.get(result.level or "", palette.SOFT)
        text = Cell(base.fold(result.text(SIGNS), RESULT_LETTERS), colour=colour, size=base.SMALL_PT)

        def draw(panels: Sequence[Axes], y: float) -> None:
            if len(self.trials):
                _draw_result(panels[0], result, axes.slot_limits(self.trials), y)

        return Row(Cell(base.fold(result.title, NAME_LETTERS)), (text,), draw, least_in=ROW_IN)

    @property
    def rows(self) -> list[RuleResult]:
        """The results that have a row: all, or only those with a hit if there are too many others."""
        hit = [result for result in self.results if result.level]
        return self.results if len(self.results) - len(hit) <= MOST_CLEAN or not hit else hit

    @property
    def _counts(self) -> str:
        return f"{int(self.trials['valid'].sum())} of {pluralize(len(self.trials), 'trial')} count"

    @property
    def caption(self) -> str:
        """Sentences on how many trials are valid, and which rules excluded the others."""
        if self.trials["valid"].all():
            doubts = sum(1 for result in self.results if result.level == "doubt")
            tail = f"; {pluralize(doubts, 'rule')} had a doubt." if doubts else "."
            return f"All {pluralize(len(self.trials), 'trial')} count{tail}"
        excluded = [(r.title, r.hits.loc[r.hits["level"] == "invalid", "trial"].nunique()) for r in self.results]
        excluding = [f"{title} ({number})" for title, number in excluded if number]
        return f"{self._counts}; the others were excluded by {base.join_first(excluding, 3, 'rules')}."

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        text = "One row is one validity rule, one place in it one trial. ✕: not counted; amber: doubt, counted;"
        text += " grey: note. An empty row: no sign of it."
        text += " What is hatched could not be checked." if any(r.unchecked for r in self.results) else ""
        drawn = {result.title for result in self.rows}
        others = [lower_first(result.title) for result in self.results if result.title not in drawn]
        named = f" {pluralize(len(others), 'more rule')} found no sign of: {', '.join(others)}."
        return text + (named if others else "")

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and every rule in words that has a hit or could not be checked."""
        results = [f"{r.title}: {r.text({})}" for r in self.results if r.level]
        clean = pluralize(sum(1 for result in self.results if not result.level), "rule")
        return "Validity rules by trial.", f"{'; '.join([*results, f'{clean} clean.'])}"


def _draw_result(panel: Axes, row: RuleResult, limits: tuple[float, float], y: float) -> None:
    """Draw the hits of a rule on trials and on the run; what could not be checked is hatched."""
    panel.axhline(y, color=palette.GRID, linewidth=0.8, zorder=-1)
    low, high = limits
    unchecked = [(low, high)] if row.wholly_unchecked else _stretches(row.unchecked_slots)
    for first, last in unchecked:
        panel.broken_barh(
            [(first, last - first)], (y - HALF_HATCH_IN, 2 * HALF_HATCH_IN), hatch="////", linewidth=0,
            facecolor=palette.BACKGROUND, edgecolor=palette.RULE, zorder=0,
        )  # fmt: skip
    if row.wholly_unchecked:
        reason = base.fold(base.drawable(row.unchecked or "", "not checked: no evidence"), REASON_LETTERS, 1)
        panel.text(
            (low + high) / 2, y, reason, size=base.SMALL_PT, color=palette.SOFT, ha="center", va="center",
            bbox={"facecolor": palette.BACKGROUND, "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
    if row.whole_run:
        colour = {"invalid": palette.INK, "doubt": palette.DOUBT}.get(row.whole_run, palette.OTHERS)
        panel.axhline(y, color=colour, linewidth=2.2, zorder=1)
    for level, props in _MARKERS.items():
        slots = row.hits.loc[row.hits["level"] == level, "slot"]
        panel.plot(slots, [y] * len(slots), linestyle="none", **props)  # type: ignore[arg-type]


def _stretches(slots: Sequence[int]) -> list[tuple[float, float]]:
    """Return the edges of every series of consecutive slots."""
    cuts = [n for n, (one, after) in enumerate(pairwise(slots), 1) if after > one + 1]
    return [(slots[a] - 0.5, slots[b - 1] + 0.5) for a, b in pairwise([0, *cuts, len(slots)])] if slots else []
