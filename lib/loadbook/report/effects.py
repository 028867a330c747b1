"""The page that answers a study's question: verdicts first, then what could explain them away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from loadbook.core.metrics import metric as metric_of
from loadbook.report import drivers, tails, trials, verdicts
from loadbook.report.blocks import Block, block, clean, render
from loadbook.report.page import Page, nothing, run_data
from loadbook.report.show import drawn, markup
from loadbook.report.tables import Table, plain, safe_table
from loadbook.stats.parts import parts_of, together

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.result import Analysis, Row

PERCENTILES = ("p50", "p75", "p90", "p95", "p99", "p99.9")
MAX_OTHERS = 3  # drawn in details; a page stays below 2 MB
LATENCY_NAMES = ("latency_intended", "latency", "service_time", "connection_time")
QUANTITIES = {
    "wrk": "wrk’s “Latency Distribution”, closed loop, with wrk’s own correction for stalls",
    "wrk2": "wrk2’s latency from the intended start",
    "ab": "ab’s “Percentage of the requests served within a certain time”, whole ms",
    "jmeter": "JMeter’s elapsed time of all samples",
    "httperf": "httperf’s connection time",
    "h2load": "h2load’s time for request",
    "weighttp": "weighttp’s total time",
}


def quantity(tools: Sequence[str]) -> str:
    """Return what a percentile of these tools is."""
    if len(tools) > 1:
        return f"as its tool defines it ({', '.join(tools)}), so that two tools are not compared"
    return QUANTITIES.get(tools[0], f"as {tools[0]} prints it")


class EffectsPage(Page):
    """Which treatments matter, and by how much; see `effects_page`."""

    notebook = "config_effects"

    @cached_property
    def parts(self) -> dict[str, EffectsPage]:
        """Condition -> its page, where the study judges conditions apart; else this page, called ""."""
        if self.data.study.apart is None or self.baseline:
            return {"": self}
        return {
            name: EffectsPage(part, metric=self.metric, level=self.level) for name, part in parts_of(self.data).items()
        }

    @cached_property
    def analysis(self) -> Analysis:
        """The answer to the study's question, of every condition against the baseline of its own."""
        if len(self.parts) == 1:
            return self.analyse(self.metric)
        return together({name: page.analysis for name, page in self.parts.items()})

    def _each(self, made: Callable[[EffectsPage], Block]) -> Block:
        """Show one thing of every condition, each below its name."""
        blocks = {name: made(page) for name, page in self.parts.items()}
        if len(blocks) == 1:
            return next(iter(blocks.values()))
        shown = [(titled(name), Markup(one.html)) for name, one in blocks.items()]  # noqa: S704 - made by templates
        text = "\n\n".join(f"{titled(name)}\n{one.text}".strip() for name, one in blocks.items())
        return Block(str(render("parts.html.j2", parts=shown)), str(clean(text)))

    def answer(self) -> Block:
        """Show the answer to the study's question, what supports it, and how many treatments are in each class."""
        said = self.said()
        return block("answer.html.j2", said.text, said=said)

    def said(self) -> verdicts.Answer:
        """Return the answer to the study's question.

        No page has words of its own where there is no verdict, or hides that one is exploratory.
        """
        said = verdicts.answer(self.judged)
        if not (self.judged.laboratory or self.judged.stand.waiting):
            said = self.own_words(said)
        return verdicts.as_it_stands(said, self.judged.stand)

    @property
    def judged(self) -> Analysis:
        """The analysis that the answer speaks of."""
        return self.analysis

    def own_words(self, usual: verdicts.Answer) -> verdicts.Answer:
        """Return the answer as this kind of page puts it."""
        return replace(usual, support=" ".join(filter(None, (usual.support, self.more_support()))))

    def more_support(self) -> str | None:
        """Return what supports the headline: of a single treatment its percentiles, as a rate hides slow requests."""
        from loadbook.report.figures import latency

        alone = len(self.analysis.of_kind("treatment")) == 1
        return f"Latency: {latency.answer(self.analysis, self.panels)}" if alone and self.panels else None

    def effects(self) -> Block:
        """Show the effect plot (of a one-sided question that of losses), a sentence per treatment, and the table."""
        return self._each(EffectsPage._effects)

    def _effects(self) -> Block:
        from loadbook.report.figures import effects, losses

        figure = losses if self.analysis.asks == "no-loss" else effects
        said, table = verdicts.sentences(self.analysis), self.table()
        html = render(
            "effects.html.j2", figure=markup(drawn(figure, self.analysis)), said=said, table=safe_table(table)
        )
        text = "\n".join(f"{s.glyph} {s.name}{s.text}" for s in said)
        return Block(str(html), str(clean(f"{text}\n\n{plain(table)}")))

    def table(self) -> Table:
        """Return the numbers behind the effect plot."""
        return verdicts.table(self.analysis, self.labels)

    def single_blocks(self) -> Block:
        """Show the pairs behind the headline's comparison; those of the other treatments are one click away."""
        return self._each(EffectsPage._single_blocks)

    def _single_blocks(self) -> Block:
        from loadbook.report.figures import pairs

        chosen = pairs.choose(self.analysis)
        if chosen is None or not _drawable(self.analysis.row(chosen)):
            return nothing("No comparison has complete blocks.")
        first = drawn(pairs, self.analysis, chosen, self.values)
        others = [r.treatment for r in self.analysis.of_kind("treatment") if r.treatment != chosen and _drawable(r)]
        rest = [markup(drawn(pairs, self.analysis, name, self.values)) for name in others[:MAX_OTHERS]]
        summary = "The other treatments" + (f": {len(rest)} of {len(others)}" if len(others) > len(rest) else "")
        html = markup(first) + (render("more.html.j2", summary=summary, inside=rest) if rest else "")
        return Block(str(html), str(clean(f"{first.answer}\n{first.alt}")))

    def latency(self) -> Block:
        """Show the latency percentiles of every trial, each percentile with verdicts of its own."""
        return self._each(EffectsPage._latency)

    def _latency(self) -> Block:
        from loadbook.report.figures import latency

        own = self._own_times()
        if not self.panels:
            none = f"{' and '.join(self.data.tools)}: no percentiles. {self._tail_note()}"
            return own or nothing(none.strip())
        shown = drawn(latency, self.analysis, panels=self.panels, quantity=self.quantity_told())
        table = verdicts.latency_table(self.panels, self.labels)
        numbers = render("details.html.j2", summary="The numbers behind this figure", inside=safe_table(table))
        text, curves = self._tail_note(), tails.curves(self.data)
        picture = tails.picture(self.analysis, curves) if curves else ""
        html = str(markup(shown) + render("note.html.j2", text=text) + numbers + picture)
        said = str(clean(f"{shown.answer}\n{text}\n{plain(table)}"))
        return Block(html + own.html, f"{said}\n{own.text}") if own else Block(html, said)

    def _own_times(self) -> Block | None:
        """Return the percentiles of each driver where several cannot be put together."""
        table = drivers.own_times(self.data, self.labels, LATENCY_NAMES, PERCENTILES)
        if not table.rows:
            return None
        said = drivers.sentence(self.data)
        html = render("note.html.j2", text=said) + safe_table(table)
        return Block(str(html), str(clean(f"{said}\n{plain(table)}")))

    @cached_property
    def panels(self) -> dict[str, tuple[pd.DataFrame, Analysis]]:
        """Percentile -> its values and its own analysis, for those that trials have requests enough to measure."""
        name, statistics = self._percentiles()
        values = {statistic: tails.measurable(self.data, name, statistic) for statistic in statistics}
        return {s: (own, self.analyse(name, s)) for s, own in values.items() if own["value"].notna().any()}

    def quantity_told(self) -> str:
        """Return what a percentile is: by its tool, and under which load."""
        closed = "closed" in set(self.data.trials["load_model"])
        return quantity(self.data.tools) + (", at fixed concurrency" if closed else "")

    def _tail_note(self) -> str:
        name, printed = self._percentiles()
        return tails.note(self.data, name, list(self.panels), [p for p in printed if p not in self.panels])

    def _percentiles(self) -> tuple[str, list[str]]:
        totals = self.data.measurements[self.data.measurements["driver"] == "*"]
        printed = totals[["metric", "statistic"]].drop_duplicates()
        for name in LATENCY_NAMES:
            there = set(printed.loc[printed["metric"] == name, "statistic"])
            if there & set(PERCENTILES):
                return name, [p for p in PERCENTILES if p in there]
        return "latency", []

    def published(self) -> Block:
        """Show what the article said beside what was measured here."""
        from loadbook.report import claims

        study = self.data.study
        judged = [one for page in self.parts.values() for one in claims.judge(page.data, page.analysis, self.level)]
        if study.published is None or not judged:
            return nothing("Nothing published stands beside this study.")
        return claims.published_block(study.published.source, judged, self.analysis)

    def summary(self) -> dict[str, Any]:
        """Return what the index and the command line say: headline, sentences, checks."""
        said = self.said()
        checks = {kind: [r.passed for r in self.analysis.of_kind(kind)] for kind in ("aa", "control")}
        verdict = {"kind": said.kind, "glyph": said.glyph, "word": said.word, "sentence": said.headline}
        return (
            super().summary()
            | {
                "verdict": verdict,
                "sentences": self.sentences(said),
                "doubts": len(trials.doubts(self.data)),
                "metric": metric_of(self.metric).name,
            }
            | {kind: all(found) if found and None not in found else None for kind, found in checks.items()}
        )

    def sentences(self, said: verdicts.Answer) -> list[str]:
        """Return what the command line says: the headline, where no line below repeats it, and a line per row."""
        lines = [f"{s.glyph} {s.name}{s.text}" for s in verdicts.sentences(self.analysis)]
        first = [] if any(said.headline.rstrip(".") in line for line in lines) else [said.headline]
        return [*first, *lines]


def titled(name: str) -> str:
    """Return the name of a condition as it begins a line."""
    return name[:1].upper() + name[1:]


def effects_page(
    study: str, run: str = "latest", baseline: str = "", metric: str = "", level: float = 0.95
) -> EffectsPage:
    """Return the page that answers a study's question from one recorded run.

    Parameters
    ----------
    study, run : names; "latest" is the newest run.
    baseline, metric : names; empty for the study's own.
    level : of the intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, or a level that is not between 0.5 and 1.
    DataError : the run was not ingested, or its tables cannot be read.
    """
    return EffectsPage(run_data(study, run), baseline, metric, level)


def _drawable(row: Row) -> bool:
    return row.verdict is not None and row.verdict.kind != "invalid" and row.verdict.comparison.effect is not None
