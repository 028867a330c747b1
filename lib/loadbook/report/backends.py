"""The page of a study of ways to a backend: which is fastest in each regime, and whether pooling pools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import UsageError
from loadbook.core.units import joined
from loadbook.report import palette, verdicts
from loadbook.report.blocks import Block
from loadbook.report.effects import EffectsPage, titled
from loadbook.report.page import note, run_data
from loadbook.report.show import show
from loadbook.stats.analyse import analyse
from loadbook.stats.parts import only
from loadbook.stats.pooling import opened
from loadbook.stats.result import Analysis, Row
from loadbook.stats.wording.sentences import NO_VERDICT, any_of, phrase
from loadbook.stats.wording.shown import comparison_texts

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.records.rundata import RunData
    from loadbook.stats.result import VerdictKind


@dataclass(frozen=True)
class Found:
    """What one regime says: its ways to the backend against the one observed best, and that against no backend.

    `void` is the sentence that there is no verdict, as its A/A arm differs; None where that passed.
    """

    modes: Analysis
    without: tuple[Row, ...]
    void: str | None = None

    @property
    def leaders(self) -> list[str]:
        """Labels of the fastest way, or of those that cannot be told apart from it; none without a verdict."""
        if self.void:
            return []
        known = (self.modes.best,) if self.modes.best else self.modes.tied_with_best
        return [self.modes.row(name).label for name in known]


class BackendsPage(EffectsPage):
    """Which way to the backend is fastest, regime by regime; see `backends_page`."""

    notebook = "backend_modes"

    def __init__(self, data: RunData, metric: str = "", level: float = 0.95) -> None:
        super().__init__(data, "", metric, level)

    @cached_property
    def found(self) -> dict[str, Found]:
        """Regime -> what it says of the ways to the backend."""
        return {name: self._find(page) for name, page in self.parts.items()}

    def _find(self, page: EffectsPage) -> Found:
        study, rows = page.data.study, page.analysis.of_kind("baseline", "treatment")
        reaching = [r.treatment for r in rows if study.setting(r.treatment, study.target_of(r.treatment)).backends]
        if not reaching:
            said = f"no treatment of study {self.data.study.name!r} hands requests on to a backend"
            raise UsageError(said, f"its notebook is {self.data.study.notebooks[0]}")
        others = [row.treatment for row in rows if row.treatment not in reaching]
        modes = self._among(page, reaching, baseline=reaching[0], contrasts="best")
        leader = modes.best or next(iter(modes.tied_with_best), None)
        against = [
            self._among(page, [leader, name], baseline=leader, contrasts="baseline") for name in others if leader
        ]
        without = tuple(row for one in against for row in one.of_kind("treatment"))
        return Found(modes, without, page.analysis.laboratory)

    def _among(self, page: EffectsPage, treatments: list[str], **changes: Any) -> Analysis:
        return analyse(only(page.data, treatments, **changes), metric=self.metric, level=self.level)

    def own_words(self, usual: verdicts.Answer) -> verdicts.Answer:
        """Say which way is fastest, what comes next and what no backend would bring, for every regime."""
        kind = _kind(list(self.found.values()))
        return replace(
            usual,
            kind=kind,
            glyph=palette.VERDICTS[kind].glyph,
            word={"better": "fastest found", "undecided": "undecided"}.get(kind, "no verdict"),
            headline=headline(self.found),
            support=" ".join(filter(None, (support(name, found) for name, found in self.found.items()))),
        )

    def connections(self) -> Block:
        """Show how many connections the application accepted for each request that it answered."""
        from loadbook.report.figures import connections

        if self.opened.empty:
            return note("Not known: no application counted its connections.")
        return show(connections, self.analysis, self.opened)

    @cached_property
    def opened(self) -> pd.DataFrame:
        """Connections that the application was sent for each request, a row per trial (`stats.pooling.opened`)."""
        study = self.data.study
        behind = {role for t in self.data.plan["treatments"] for role in study.setting(t, study.target_of(t)).backends}
        return opened(self.data.traces, self.data.trials, sorted(behind))

    def sentences(self, said: verdicts.Answer) -> list[str]:
        """Return what the command line says: the headline with what supports it, and a line per row."""
        lines = [f"{line.glyph} {line.name}{line.text}" for line in verdicts.sentences(self.analysis)]
        return [said.headline, said.support, *lines]


def headline(found: dict[str, Found]) -> str:
    """Return which way to the backend is fastest in which regime, in one sentence."""
    leaders = {name: tuple(one.leaders) for name, one in found.items()}
    alone = set(leaders.values())
    where = joined(list(leaders)) if all(leaders) else ""
    if len(alone) == 1 and len(next(iter(alone))) == 1:
        (name,) = next(iter(alone))
        return f"{titled(where)}: {name} is the fastest way to the application." if where else f"{name} is fastest."
    told = (f"{name}: {_fastest(names)}" if name else _fastest(names, capital=True) for name, names in leaders.items())
    said = "; ".join(told)
    return f"{said if leaders.get('') else titled(said)}."


def _fastest(leaders: tuple[str, ...], *, capital: bool = False) -> str:
    if not leaders:
        return "no verdict"
    return f"{leaders[0]} is fastest" if len(leaders) == 1 else f"{any_of(leaders, capital=capital)} may be fastest"


def support(name: str, found: Found) -> str:
    """Return what comes next after the fastest way, and how it stands against an answer without a backend.

    Where there is no fastest way: that the laboratory contradicts itself, if it does.
    """
    if not found.leaders:
        return f"{titled(name)}: {found.void.removeprefix(NO_VERDICT)}" if found.void else ""
    behind = [row for row in found.modes.of_kind("treatment") if row.verdict and row.verdict.kind == "worse"]
    said = [f"next is {behind[-1].label}{_by(behind[-1])}"] if behind else []
    said += [f"{row.label}{_by(row).removeprefix(',') if _moved(row) else _plain(row, found)}" for row in found.without]
    if not said:
        return ""
    return f"{titled(name)}: {'; '.join(said)}." if name else f"{titled('; '.join(said))}."


def _by(row: Row) -> str:
    """Return ", slower by 52 % (50 to 54 %)"."""
    texts = comparison_texts(row.verdict) if row.verdict else None
    return f", {texts.word} by {texts.size} ({texts.bounds})" if texts else ""


def _moved(row: Row) -> bool:
    return row.verdict is not None and row.verdict.kind in ("better", "worse", "small")


def _plain(row: Row, found: Found) -> str:
    return phrase(row.verdict, against=found.leaders[0]).rstrip(".") if row.verdict else ""


def _kind(found: list[Found]) -> VerdictKind:
    if not all(one.leaders for one in found):
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
    return BackendsPage(run_data(study, run), metric, level)
