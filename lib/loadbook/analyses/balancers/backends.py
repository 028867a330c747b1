"""The page of a study of ways to a backend: which is fastest in each regime, and whether pooling pools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.analyses.balancers.compute import connections_per_request
from loadbook.analyses.effects.page import EffectsPage, capitalise_first
from loadbook.core.errors import UsageError
from loadbook.core.units import join_words
from loadbook.report import palette, verdicts
from loadbook.report.blocks import Block, figure_block, note_block
from loadbook.report.page import load_run_data
from loadbook.stats.analyse import analyse, restrict_to
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import NO_VERDICT, alternatives_text, comparison_texts, verdict_phrase

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.results import VerdictKind
    from loadbook.store.tables import RunData


@dataclass(frozen=True)
class RegimeResult:
    """What one regime says: its ways to the backend against the one observed best, and that against no backend.

    `aa_failure` is the sentence that there is no verdict, as its A/A arm differs; None where that passed.
    """

    modes: Analysis
    no_backend_rows: tuple[AnalysisRow, ...]
    aa_failure: str | None = None

    @property
    def best_labels(self) -> list[str]:
        """Labels of the fastest way, or of those that cannot be told apart from it; none without a verdict."""
        if self.aa_failure:
            return []
        known = (self.modes.best,) if self.modes.best else self.modes.tied_with_best
        return [self.modes.row(name).label for name in known]


class BackendsPage(EffectsPage):
    """Which way to the backend is fastest, regime by regime; see `backends_page`."""

    notebook = "backend_modes"

    def __init__(self, data: RunData, metric: str = "", level: float = 0.95) -> None:
        super().__init__(data, "", metric, level)

    @cached_property
    def regimes(self) -> dict[str, RegimeResult]:
        """Regime -> what it says of the ways to the backend."""
        return {name: self._analyse_regime(page) for name, page in self.strata.items()}

    def _analyse_regime(self, page: EffectsPage) -> RegimeResult:
        study, rows = page.data.study, page.analysis.of_kind("baseline", "treatment")
        reaching = [r.treatment for r in rows if study.setting(r.treatment, study.target_of(r.treatment)).backends]
        if not reaching:
            message = f"no treatment of study {self.data.study.name!r} hands requests on to a backend"
            raise UsageError(message, f"its notebook is {self.data.study.notebooks[0]}")
        others = [row.treatment for row in rows if row.treatment not in reaching]
        modes = self._analyse_subset(page, reaching, baseline=reaching[0], contrasts="best")
        leader = modes.best or next(iter(modes.tied_with_best), None)
        against = [
            self._analyse_subset(page, [leader, name], baseline=leader, contrasts="baseline")
            for name in others
            if leader
        ]
        without = tuple(row for one in against for row in one.of_kind("treatment"))
        return RegimeResult(modes, without, page.analysis.aa_failure)

    def _analyse_subset(self, page: EffectsPage, treatments: list[str], **changes: Any) -> Analysis:
        return analyse(restrict_to(page.data, treatments, **changes), metric=self.metric, level=self.level)

    def customise_answer(self, default: verdicts.AnswerSummary) -> verdicts.AnswerSummary:
        """Say which way is fastest, what comes next and what no backend would bring, for every regime."""
        kind = _overall_kind(list(self.regimes.values()))
        return replace(
            default,
            kind=kind,
            glyph=palette.VERDICTS[kind].glyph,
            word={"better": "fastest found", "undecided": "undecided"}.get(kind, "no verdict"),
            headline=regimes_headline(self.regimes),
            support=" ".join(filter(None, (regime_support(name, found) for name, found in self.regimes.items()))),
        )

    def connections(self) -> Block:
        """Show how many connections the application accepted for each request that it answered."""
        from loadbook.analyses.balancers.connections import ConnectionsFigure

        if self.connections_per_request.empty:
            return note_block("Not known: no application counted its connections.")
        return figure_block(ConnectionsFigure(self.analysis, self.connections_per_request))

    @cached_property
    def connections_per_request(self) -> pd.DataFrame:
        """Connections that the application was sent for each request, a row per trial.

        (`analyses.balancers.compute.opened`).
        """
        study = self.data.study
        backend_roles = {
            role for t in self.data.plan["treatments"] for role in study.setting(t, study.target_of(t)).backends
        }
        return connections_per_request(self.data.traces, self.data.trials, sorted(backend_roles))

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return what the command line says: the headline with what supports it, and a line per row."""
        lines = [f"{line.glyph} {line.name}{line.text}" for line in verdicts.verdict_lines(self.analysis)]
        return [answer.headline, answer.support, *lines]


def regimes_headline(found: dict[str, RegimeResult]) -> str:
    """Return which way to the backend is fastest in which regime, in one sentence."""
    leaders = {name: tuple(one.best_labels) for name, one in found.items()}
    alone = set(leaders.values())
    where = join_words(list(leaders)) if all(leaders) else ""
    if len(alone) == 1 and len(next(iter(alone))) == 1:
        (name,) = next(iter(alone))
        return (
            f"{capitalise_first(where)}: {name} is the fastest way to the application."
            if where
            else f"{name} is fastest."
        )
    phrases = (
        f"{name}: {_fastest_text(names)}" if name else _fastest_text(names, capital=True)
        for name, names in leaders.items()
    )
    text = "; ".join(phrases)
    return f"{text if leaders.get('') else capitalise_first(text)}."


def _fastest_text(leaders: tuple[str, ...], *, capital: bool = False) -> str:
    if not leaders:
        return "no verdict"
    return (
        f"{leaders[0]} is fastest"
        if len(leaders) == 1
        else f"{alternatives_text(leaders, capital=capital)} may be fastest"
    )


def regime_support(name: str, found: RegimeResult) -> str:
    """Return what comes next after the fastest way, and how it stands against an answer without a backend.

    Where there is no fastest way: that the laboratory contradicts itself, if it does.
    """
    if not found.best_labels:
        return f"{capitalise_first(name)}: {found.aa_failure.removeprefix(NO_VERDICT)}" if found.aa_failure else ""
    slower = [row for row in found.modes.of_kind("treatment") if row.verdict and row.verdict.kind == "worse"]
    phrases = [f"next is {slower[-1].label}{_difference_text(slower[-1])}"] if slower else []
    phrases += [
        f"{row.label}{_difference_text(row).removeprefix(',') if _differs(row) else _verdict_phrase(row, found)}"
        for row in found.no_backend_rows
    ]
    if not phrases:
        return ""
    return f"{capitalise_first(name)}: {'; '.join(phrases)}." if name else f"{capitalise_first('; '.join(phrases))}."


def _difference_text(row: AnalysisRow) -> str:
    """Return ", slower by 52 % (50 to 54 %)"."""
    texts = comparison_texts(row.verdict) if row.verdict else None
    return f", {texts.direction_word} by {texts.size} ({texts.bounds})" if texts else ""


def _differs(row: AnalysisRow) -> bool:
    return row.verdict is not None and row.verdict.kind in ("better", "worse", "small")


def _verdict_phrase(row: AnalysisRow, found: RegimeResult) -> str:
    return verdict_phrase(row.verdict, against=found.best_labels[0]).rstrip(".") if row.verdict else ""


def _overall_kind(found: list[RegimeResult]) -> VerdictKind:
    if not all(one.best_labels for one in found):
        return "invalid"
    return "better" if all(one.modes.best for one in found) else "undecided"


def backends_page(study: str, run: str = "latest", metric: str = "", level: float = 0.95) -> BackendsPage:
    """Return the page of a study of ways to a backend from one recorded run.

    Parameters
    ----------
    study, run : names; "latest" is the newest run.
    metric : a name; empty for the study's own.
    level : of the intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, or a level that is not between 0.5 and 1.
    DataError : the run was not ingested, or its tables cannot be read.
    """
    return BackendsPage(load_run_data(study, run), metric, level)
