"""Figure of validity rules by trial: how many trials are valid, and whether hits cluster in time or treatments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from loadbook.core.units import pluralize
from loadbook.core.validity_rules import lower_first
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.store.tables import RunData

LEVELS = ("invalid", "doubt", "note", "unchecked")
LEVEL_TEXTS = {"invalid": "✕ not counted", "doubt": "! doubt", "note": "note", "unchecked": "not checked"}
ROW_IN, HEAD_IN, FOOT_IN, NAME_IN, RESULT_IN = 0.28, 0.34, 0.5, 2.5, 2.0
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
    unchecked : the reason why the rule could not be checked for some trials; None if all were checked.
    unchecked_slots : the slots of the trials for which the rule could not be checked.
    wholly_unchecked : whether the rule could not be checked for any trial.
    text : the summary at the right of the row.
    """

    title: str
    level: str | None
    hits: pd.DataFrame
    whole_run: str | None
    unchecked: str | None
    unchecked_slots: tuple[int, ...]
    wholly_unchecked: bool
    text: str


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
        others = {n: _title_of(n) for n in sorted(set(problems["name"]) - set(self.titles))}
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
        text = self._result_text(hits, whole_run, len(slots))
        return RuleResult(title, level, hits, whole_run, reason, tuple(sorted(slots)), wholly, text)

    def _result_text(self, hits: pd.DataFrame, whole_run: str | None, unchecked: int) -> str:
        """Return the summary of a row: number of trials with hits, and the treatment if all are of one treatment."""
        if whole_run:
            return f"{LEVEL_TEXTS[whole_run]}: whole run"
        numbers = {level: hits.loc[hits["level"] == level, "trial"].nunique() for level in LEVELS}
        levels = [level for level in ("invalid", "doubt") if numbers[level]] or ["note"] * bool(numbers["note"])
        parts = [f"{LEVEL_TEXTS[level]}: {numbers[level]}" for level in levels]
        if unchecked:
            wholly = hits.empty and unchecked == len(self.trials)
            parts.append("not checked" if wholly else f"not checked: {unchecked}")
        text = ", ".join(parts) or "0"
        treatments = list(hits["treatment"].unique())
        if hits["trial"].nunique() > 1 and len(treatments) == 1 and self.trials["treatment"].nunique() > 1:
            text += f", all {base.drawable(self.labels.get(treatments[0], treatments[0]), treatments[0])}"
        return text

    def _draw(self) -> base.Sheet:
        with_result, size = [result for result in self.results if result.level], base.LETTER_PT - 0.6
        # rows for all rules, or only for rules with hits if there are too many others
        all_rows = len(self.results) - len(with_result) <= MOST_CLEAN or not with_result
        rows = self.results if all_rows else with_result
        texts = [base.wrap(row.text, RESULT_IN, base.LETTER_PT - 0.8) for row in rows]
        heights = [ROW_IN + 0.1 * ("\n" in text) for text in texts]
        bottom, clean = HEAD_IN + sum(heights), self._clean_text(rows)
        sheet = base.Sheet(bottom + FOOT_IN + (base.text_height(size, base.line_count(clean)) + 0.08 if clean else 0))
        names = [base.wrap(row.title, NAME_IN, sheet.size) for row in rows]
        left = max(base.max_text_width(names, sheet.size), 1.0) + 0.2
        right = base.WIDTH_IN - max(base.max_text_width(texts, sheet.size - 0.8), 0.6) - 0.2
        panel = sheet.rows_panel(left, HEAD_IN, right, bottom)
        if len(self.trials):
            axes.set_block_axis(panel, self.trials, right - left, sheet.size)
            axes.shade_blocks(panel, self.trials)
        top = HEAD_IN
        for row, text, height in zip(rows, texts, heights, strict=True):
            if len(self.trials):
                _draw_row(panel, row, axes.slot_limits(self.trials), top + height / 2)
            _write_row(sheet, row, text, top + height / 2, (left, right))
            top += height
        sheet.text(0.05, 0.13, self._counts, bold=True)
        title = f"block ({pluralize(len(self.trials), 'trial')} in order of execution)"
        sheet.text((left + right) / 2, bottom + 0.37, title, colour=palette.SOFT, align="center")
        sheet.text(0.05, bottom + FOOT_IN + 0.04, clean, size=size, colour=palette.SOFT, va="top")
        return sheet

    def _clean_text(self, rows: list[RuleResult]) -> str:
        """Return the wrapped list of rules without hits that have no row; "" if there are none."""
        titles = {row.title for row in rows}
        clean = [result.title for result in self.results if result.title not in titles]
        text = f"{pluralize(len(clean), 'more rule')} found no sign of: {', '.join(map(lower_first, clean))}."
        return base.wrap(text, base.WIDTH_IN - 0.25, base.LETTER_PT - 0.6, lines=30) if clean else ""

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
        return text + (" What is hatched could not be checked." if any(r.unchecked for r in self.results) else "")

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: every rule that has a hit or could not be checked."""
        results = [f"{r.title}: {r.text.replace('✕ ', '').replace('! ', '')}" for r in self.results if r.level]
        clean = pluralize(sum(1 for result in self.results if not result.level), "rule")
        return "Validity rules by trial.", f"{'; '.join([*results, f'{clean} clean.'])}"


def _title_of(name: str) -> str:
    text = base.drawable(name, "rule").replace("-", " ").replace("_", " ")
    return text[:1].upper() + text[1:]


def _draw_row(panel: Axes, row: RuleResult, limits: tuple[float, float], y: float) -> None:
    low, high = limits
    panel.plot([low, high], [y, y], color=palette.GRID, linewidth=0.8, zorder=-1)
    for first, last in [(low + 0.5, high - 0.5)] if row.wholly_unchecked else _stretches(row.unchecked_slots):
        box = Rectangle((first - 0.5, y - 0.09), last - first + 1, 0.18, facecolor=palette.BACKGROUND, hatch="////")
        box.set(linewidth=0, zorder=0, edgecolor=palette.RULE)
        panel.add_patch(box)
    if row.whole_run:
        colour = {"invalid": palette.INK, "doubt": palette.DOUBT}.get(row.whole_run, palette.OTHERS)
        panel.plot([low, high], [y, y], color=colour, linewidth=2.2, zorder=1, solid_capstyle="butt")
    for level, props in _MARKERS.items():
        slots = row.hits.loc[row.hits["level"] == level, "slot"]
        panel.plot(slots, [y] * len(slots), linestyle="none", **props)  # type: ignore[arg-type]


def _stretches(slots: Sequence[int]) -> list[tuple[int, int]]:
    """Return (first, last) slot of every series of consecutive slots."""
    cuts = [n for n, (one, after) in enumerate(pairwise(slots), 1) if after > one + 1]
    return [(slots[a], slots[b - 1]) for a, b in pairwise([0, *cuts, len(slots)])] if slots else []


def _write_row(sheet: base.Sheet, row: RuleResult, text: str, y: float, edges: tuple[float, float]) -> None:
    left, right = edges
    colour = {"invalid": palette.INK, "doubt": palette.DOUBT_TEXT}.get(row.level or "", palette.SOFT)
    size = sheet.size - 0.8
    sheet.text(left - 0.1, y, base.wrap(row.title, NAME_IN, sheet.size, lines=1), align="right")
    sheet.text(right + 0.1, y, text, size=size, colour=colour)
    if row.wholly_unchecked:
        why = base.drawable(row.unchecked or "", "no evidence").removeprefix("not checked: ")
        reason = base.wrap(f"not checked: {why}", right - left - 0.3, size, lines=1)
        written = sheet.text((left + right) / 2, y, reason, size=size, colour=palette.SOFT, align="center")
        written.set_bbox({"facecolor": palette.BACKGROUND, "edgecolor": "none", "pad": 1.0})
