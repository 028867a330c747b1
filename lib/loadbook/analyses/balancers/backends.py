"""The page of ways to a backend: the fastest in each regime, and connections per request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.analyses.balancers.compute import connections_per_request
from loadbook.analyses.effects.page import EffectsPage, capitalise_first
from loadbook.core.errors import UsageError
from loadbook.core.units import join_words
from loadbook.report import palette, verdicts
from loadbook.report.blocks import Block, note_block
from loadbook.report.nodes import Picture
from loadbook.report.page import load_run_data
from loadbook.stats.analyse import analyse
from loadbook.stats.headline import NO_VERDICT, neutral_caption
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import alternatives_text, comparison_texts, verdict_phrase
from loadbook.store.tables import restrict_to

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.results import VerdictKind
    from loadbook.store.tables import RunData


@dataclass(frozen=True)
class RegimeResult:
    """One regime: its ways to the backend against the one observed best, and that one against no backend.

    `aa_failure` is the sentence that there is no verdict, as the A/A arm differs; None if it passed.
    """

    modes: Analysis
    no_backend_rows: tuple[AnalysisRow, ...]
    aa_failure: str | None = None

    @property
    def best_labels(self) -> list[str]:
        """Labels of the fastest way, or of those tied with it; none without a verdict."""
        if self.aa_failure:
            return []
        names = (self.modes.best,) if self.modes.best else self.modes.tied_with_best
        return [self.modes.row(name).label for name in names]


class BackendsPage(EffectsPage):
    """The fastest way to the backend, regime by regime; see `backends_page`."""

    notebook = "backend_modes"

    def __init__(self, data: RunData, metric: str = "", level: float = 0.95) -> None:
        super().__init__(data, "", metric, level)

    @cached_property
    def regimes(self) -> dict[str, RegimeResult]:
        """Regime -> its analysis of the ways to the backend."""
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
        return RegimeResult(modes, without, neutral_caption(page.analysis) if page.analysis.is_void else None)

    def _analyse_subset(self, page: EffectsPage, treatments: list[str], **changes: Any) -> Analysis:
        return analyse(restrict_to(page.data, treatments, **changes), metric=self.metric, level=self.level)

    def customise_answer(self, default: verdicts.AnswerSummary) -> verdicts.AnswerSummary:
        """Return the answer of every regime: the fastest way, the next one, and the rate without a backend."""
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
        """Show the connections that the application accepted for each request that it answered."""
        from loadbook.analyses.balancers.connections import ConnectionsFigure

        if self.connections_per_request.empty:
            return note_block("Not known: no application counted its connections.")
        return Block(Picture(ConnectionsFigure(self.analysis, self.connections_per_request)))

    @cached_property
    def connections_per_request(self) -> pd.DataFrame:
        """Connections that the application accepted for each request, a row per trial."""
        study = self.data.study
        backend_roles = {
            role for t in self.data.plan["treatments"] for role in study.setting(t, study.target_of(t)).backends
        }
        return connections_per_request(self.data.traces, self.data.trials, sorted(backend_roles))

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return the lines of the command line: the headline, its support, and a line per row."""
        lines = [f"{line.glyph} {line.name}{line.text}" for line in verdicts.verdict_lines(self.analysis)]
        return [answer.headline, answer.support, *lines]


def regimes_headline(regimes: dict[str, RegimeResult]) -> str:
    """Return the fastest way to the backend in each regime, in one sentence."""
    best = {name: tuple(one.best_labels) for name, one in regimes.items()}
    if len(set(best.values())) == 1 and len(next(iter(best.values()))) == 1:
        (label,) = next(iter(best.values()))
        where = join_words(list(best)) if all(best) else ""
        if not where:
            return f"{label} is fastest."
        return f"{capitalise_first(where)}: {label} is the fastest way to the application."
    phrases = []
    for name, labels in best.items():
        text = "no verdict"
        if labels:
            text = f"{labels[0] if len(labels) == 1 else alternatives_text(labels, capital=not name)} "
            text += "is fastest" if len(labels) == 1 else "may be fastest"
        phrases.append(f"{name}: {text}" if name else text)
    text = "; ".join(phrases)
    return f"{text if best.get('') else capitalise_first(text)}."


def regime_support(name: str, result: RegimeResult) -> str:
    """Return the next way after the fastest one, and the fastest against an answer without a backend.

    Without a fastest way: the reason, if the A/A arm differs.
    """
    if not result.best_labels:
        reason = (result.aa_failure or "").removeprefix(NO_VERDICT)
        return f"{capitalise_first(name)}: {reason}" if reason else ""
    slower = [row for row in result.modes.of_kind("treatment") if row.verdict and row.verdict.kind == "worse"]
    phrases = [f"next is {slower[-1].label}, {_difference_text(slower[-1])}"] if slower else []
    for row in result.no_backend_rows:
        if row.verdict and row.verdict.kind in ("better", "worse", "small"):
            phrases.append(f"{row.label} {_difference_text(row)}")
        elif row.verdict:
            phrase = verdict_phrase(row.verdict, against=result.best_labels[0]).rstrip(".")
            phrases.append(f"{row.label}{phrase}")
        else:
            phrases.append(row.label)
    if not phrases:
        return ""
    return f"{capitalise_first(name)}: {'; '.join(phrases)}." if name else f"{capitalise_first('; '.join(phrases))}."


def _difference_text(row: AnalysisRow) -> str:
    """Return "slower by 52 % (50 to 54 %)"."""
    texts = comparison_texts(row.verdict) if row.verdict else None
    return f"{texts.direction_word} by {texts.size} ({texts.bounds})" if texts else ""


def _overall_kind(regimes: list[RegimeResult]) -> VerdictKind:
    if not all(one.best_labels for one in regimes):
        return "invalid"
    return "better" if all(one.modes.best for one in regimes) else "undecided"


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
