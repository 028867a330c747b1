"""The page that answers a study's question: verdicts first, then evidence that could explain them away."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.analyses import SECTIONS
from loadbook.core.metrics import get_metric
from loadbook.core.units import pluralize
from loadbook.modes.base import TellingBlocks
from loadbook.modes.plain.page import page_of
from loadbook.report import checks as tails
from loadbook.report import sections, verdicts
from loadbook.report.blocks import CHECK_SHORT_NAMES, CHECK_STATES, Block, empty_section, note
from loadbook.report.nodes import Content, Details, Group, Heading, HtmlOnly, Picture, Table
from loadbook.report.page import Page, load_run_data
from loadbook.report.strips import effect_interval, interval_records
from loadbook.stats.analyse import combine_strata
from loadbook.stats.compare import MIN_BLOCKS
from loadbook.stats.headline import neutral_headline
from loadbook.stats.next_step import next_step
from loadbook.store.paths import EXAMPLES
from loadbook.store.tables import strata_of

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.report.figures.latency import LatencyDistributionFigure, LatencyFigure
    from loadbook.stats.results import Analysis

PERCENTILES = ("p50", "p75", "p90", "p95", "p99", "p99.9")
MAX_OTHER_FIGURES = 3  # further figures in a part that opens on a click; limited so that a page stays below 2 MB
FEW_LATENCY_BLOCKS = (
    f"The study has fewer than {MIN_BLOCKS} blocks for latencies: a picture only. "
    f"With latency_blocks = {MIN_BLOCKS} they are compared."
)
UNCHECKED = "No A/A arm and no known effect are among these results: nothing shows how far they can be trusted."
LATENCY_METRICS = ("latency_intended", "latency", "service_time", "connection_time")
STARTS = {"latency_intended": ", from the intended start", "service_time": ", from the actual start"}
PERCENTILE_DEFINITIONS = {
    "wrk": "wrk’s “Latency Distribution”, closed loop, with wrk’s own correction for stalls",
    "wrk2": "wrk2’s latency from the intended start",
    "ab": "ab’s “Percentage of the requests served within a certain time”, whole ms",
    "jmeter": "JMeter’s elapsed time of all samples",
    "httperf": "httperf’s connection time",
    "h2load": "h2load’s time for request",
    "weighttp": "weighttp’s total time",
    "autocannon": "autocannon’s latency, whole ms",
    "artillery": "Artillery’s times to the first byte, right to 1 %",
    "bombardier": "bombardier’s latency",
    "fortio": "fortio’s times of calls, interpolated within buckets",
    "gatling": "Gatling’s response times, whole ms",
    "hey": "hey’s response times, in steps of 0.1 ms, connecting included",
    "locust": "Locust’s response time, with connecting and the wait for its one process",
    "k6": "k6’s http_req_duration, without connecting",
    "oha": "oha’s response times, with its correction if the load has a rate",
    "siege": "siege’s times of transactions, in steps of 10 ms, connecting included",
    "vegeta": "vegeta’s latency of answered requests, connecting included",
}


class EffectsPage(Page):
    """The page on which treatments matter and by how much, made by `effects_page`."""

    notebook = "config_effects"

    @cached_property
    def strata(self) -> dict[str, EffectsPage]:
        """Condition -> its page, if the study analyses conditions separately; else {"": this page}."""
        if self.run_data.study.stratify_by is None or self.baseline:
            return {"": self}
        return {
            name: EffectsPage(part, metric=self.metric, level=self.level)
            for name, part in strata_of(self.run_data).items()
        }

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis that answers the study's question; each condition is compared with its own baseline."""
        if len(self.strata) == 1:
            return self.analyse(self.metric)
        return combine_strata({name: page.analysis for name, page in self.strata.items()})

    def _each_stratum(self, make_block: Callable[[EffectsPage], Block]) -> Block:
        """Show the block that `make_block` returns for each condition, below the condition's name."""
        blocks = {name: make_block(page) for name, page in self.strata.items()}
        if len(blocks) == 1:
            return next(iter(blocks.values()))
        return Block(*(Group(Heading(capitalise_first(name)), block) for name, block in blocks.items()))

    def answer(self) -> Block:
        """Show the answer to the study's question, its support, the number of treatments per verdict, the next step."""
        return Block(replace(self.answer_summary(), step=self.next_line()).nodes)

    def answer_summary(self) -> verdicts.AnswerSummary:
        """Return the answer to the study's question.

        All kinds of pages have the same sentence if there is no verdict, and all mark exploratory verdicts.
        """
        answer = verdicts.summarise_answer(self.answer_analysis)
        if not neutral_headline(self.answer_analysis) and not neutral_headline(self.analysis):
            answer = self.customise_answer(answer)
        return verdicts.mark_exploratory(answer, self.answer_analysis.stopping_state)

    @property
    def answer_analysis(self) -> Analysis:
        """The analysis from which the answer is written."""
        return self.analysis

    def customise_answer(self, default: verdicts.AnswerSummary) -> verdicts.AnswerSummary:
        """Return the answer in the form of this kind of page; subclasses override it."""
        return replace(default, support=" ".join(filter(None, (default.support, self.extra_support()))))

    def extra_support(self) -> str | None:
        """Return the sentence below the headline: latency percentiles if there is one treatment, else None."""
        if len(self.analysis.of_kind("treatment")) != 1 or not self.panels:
            return None
        if blocks := self._few_blocks_for_times:
            return f"Latency: shown below, of {pluralize(blocks.number, blocks.noun)}."
        return f"Latency: {self.latency_figure.caption}"

    @property
    def _few_blocks_for_times(self) -> TellingBlocks | None:
        """Return the blocks for times if they are others than those for rates, and too few for a comparison."""
        blocks = self.run_data.plan.mode.blocks_telling(self.run_data.plan, "latency")
        return blocks if blocks.is_fixed and blocks.number < MIN_BLOCKS else None

    def effects(self) -> Block:
        """Show the effect plot (or the non-inferiority plot), a sentence per treatment, and the table."""
        return self._each_stratum(EffectsPage._effects_block)

    def _effects_block(self) -> Block:
        from loadbook.analyses.effects.figure import EffectsFigure, NonInferiorityFigure

        figure = NonInferiorityFigure if self.analysis.hypothesis == "non-inferiority" else EffectsFigure
        lines = verdicts.verdict_list(verdicts.verdict_lines(self.analysis))
        if not self._is_compared:
            shown = self.distribution_figure
            picture = HtmlOnly(Picture(shown)) if shown.profiles else None
            return Block(self.effects_table(), picture, lines)
        about = verdicts.level_note(self.analysis)
        picture = HtmlOnly(Picture(figure(self.analysis)))
        return Block(picture, lines, self.effects_table(), note(about) if about else None)

    @property
    def _is_compared(self) -> bool:
        return any(row.is_compared for row in self.analysis.rows)

    def effects_table(self) -> Table:
        """Return the numbers behind the effect plot."""
        return verdicts.verdict_table(self.analysis, self.labels)

    def single_blocks(self) -> Block:
        """Show the headline's comparison block by block; a click opens the comparisons of other treatments."""
        return self._each_stratum(EffectsPage._single_blocks_block)

    def _single_blocks_block(self) -> Block:
        from loadbook.analyses.effects.pairs import PairedBlocksFigure, default_treatment

        chosen = default_treatment(self.analysis)
        if chosen is None or not self.analysis.row(chosen).is_compared:
            return empty_section("No comparison has complete blocks.")
        others = [r.treatment for r in self.analysis.of_kind("treatment") if r.treatment != chosen and r.is_compared]
        pictures = [
            Picture(PairedBlocksFigure(self.analysis, name, self.values))
            for name in [chosen, *others[:MAX_OTHER_FIGURES]]
        ]
        rest = f": {MAX_OTHER_FIGURES} of {len(others)}" if len(others) > MAX_OTHER_FIGURES else ""
        more = HtmlOnly(Details(f"The other treatments{rest}", *pictures[1:])) if others else None
        return Block(pictures[0], more)

    def latency(self) -> Block:
        """Show the latency percentiles of every trial, with separate verdicts for each percentile."""
        return self._each_stratum(EffectsPage._latency_block)

    def _latency_block(self) -> Block:
        table = sections.driver_latency_table(self.run_data, self.labels, LATENCY_METRICS, PERCENTILES)
        own: list[Content] = []
        if table.rows:
            own = [note(sections.driver_latency_note(self.run_data, is_rest=bool(self.panels))), table]
        if not self.panels:
            if own:
                return Block(*own)
            tools = " and ".join(self.run_data.tools)
            if text := page_of(self.run_data.study).no_percentiles_text():
                return Block(note(f"{tools}: {text}"))
            return empty_section(f"{tools}: no percentiles. {self._tail_note()}".strip())
        return Block(
            Picture(self.latency_figure),
            note(self._tail_note()),
            note(FEW_LATENCY_BLOCKS) if self._few_blocks_for_times else None,
            Details("The numbers behind this figure", verdicts.latency_table(self.panels, self.labels)),
            # of a page without comparison it is at the top
            Picture(self.distribution_figure) if self._is_compared and self.distribution_figure.profiles else None,
            *own,
        )

    @cached_property
    def distribution_figure(self) -> LatencyDistributionFigure:
        """The figure of the latency by percentile; without profiles if there are neither percentiles nor requests."""
        from loadbook.report.figures.latency import LatencyDistributionFigure

        return LatencyDistributionFigure(self.analysis, tails.treatment_curves(self.run_data), self.panels)

    @cached_property
    def latency_figure(self) -> LatencyFigure:
        """The figure of the latency percentiles; without panels if the run has no latencies."""
        from loadbook.report.figures.latency import LatencyFigure

        tools, closed = self.run_data.tools, "closed" in set(self.run_data.trials["load_model"])
        definition = f"as its tool defines it ({', '.join(tools)}), so that two tools are not compared"
        if len(tools) == 1:
            definition = PERCENTILE_DEFINITIONS.get(tools[0], f"as {tools[0]} prints it")
        definition += STARTS.get(self._available_percentiles[0], "") if "start" not in definition else ""
        definition += ", at fixed concurrency" if closed else ""
        return LatencyFigure(self.analysis, self.panels, definition)

    @cached_property
    def panels(self) -> dict[str, tuple[pd.DataFrame, Analysis]]:
        """Percentile, as "p99" -> its values by trial and their analysis; those of too few requests are left out."""
        name, statistics = self._available_percentiles
        values = {statistic: tails.measurable_values(self.run_data, name, statistic) for statistic in statistics}
        return {s: (own, self.analyse(name, s)) for s, own in values.items() if own["value"].notna().any()}

    def _tail_note(self) -> str:
        name, printed = self._available_percentiles
        return tails.tail_note(self.run_data, name, list(self.panels), [p for p in printed if p not in self.panels])

    @cached_property
    def _available_percentiles(self) -> tuple[str, list[str]]:
        """The time of which the figure shows percentiles, and the percentiles; the study's own one, if it is a time.

        Else it is one that most treatments have, as tools print `latency_intended` for some loads only.
        """
        measurements = self.run_data.measurements
        wanted = measurements["metric"].isin(LATENCY_METRICS) & measurements["statistic"].isin(PERCENTILES)
        totals = measurements[wanted & (measurements["driver"] == "*")]
        treatments = totals["trial"].map(self.run_data.trials.set_index("trial")["treatment"])
        count = treatments.groupby(totals["metric"]).nunique()
        names = sorted(count.index, key=lambda name: (name != self.metric, -count[name], LATENCY_METRICS.index(name)))
        if not names:
            return "latency", []
        available = set(totals.loc[totals["metric"] == names[0], "statistic"])
        return names[0], [p for p in PERCENTILES if p in available]

    def published(self) -> Block:
        """Show the article's claims beside the measured results."""
        if "published" not in SECTIONS:
            return empty_section("This section is not installed.")
        block: Block = importlib.import_module(SECTIONS["published"]).section(self)
        return block

    def summary(self) -> dict[str, Any]:
        """Return the headline, the sentences and the harness checks for the index page and the command line."""
        answer = self.answer_summary()
        sentences = self.sentences(answer)
        # the worst state of the A/A arms and of the positive controls; "aa" and "control" are true only if all passed
        arms = {kind: [row.check_state for row in self.analysis.of_kind(kind)] for kind in CHECK_SHORT_NAMES}
        states = {kind: next(s for s in CHECK_STATES if s in own) for kind, own in arms.items() if own}
        passed = {"passed": True, "failed": False}
        checks: dict[str, Any] = {kind: passed.get(states.get(kind, "")) for kind in CHECK_SHORT_NAMES}
        return super().summary() | {
            "verdict": {"kind": answer.kind, "glyph": answer.glyph, "word": answer.word, "sentence": answer.headline},
            "sentences": sentences,
            "effects": self._interval_records(sentences),
            "next": self.next_line(),
            "doubts": len(sections.doubt_messages(self.run_data)),
            "metric": get_metric(self.metric).name,
            **checks,
            "check_states": states,
        }

    def _interval_records(self, sentences: list[str]) -> list[dict[str, Any]]:
        """Return the intervals of those `sentences` that are the verdict sentence of a row."""
        rows, metric = [row for row in self.analysis.rows if row.kind != "baseline"], get_metric(self.metric)
        pairs = zip(verdicts.verdict_lines(self.analysis), rows, strict=True)
        return interval_records(
            (line.sentence, effect_interval(row, metric)) for line, row in pairs if line.sentence in sentences
        )

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return the lines that the command line prints: the headline unless a row repeats it, and a line per row.

        Where the run cannot tell small differences, or a check forbids a verdict, the reason follows the headline.
        """
        lines = [line.sentence for line in verdicts.verdict_lines(self.analysis)]
        if not self.analysis.of_kind("aa", "control"):
            lines.append(UNCHECKED)
        if not self.analysis.allows_headline or self.analysis.resolution is not None:
            return [*filter(None, [answer.headline, answer.support]), *lines]
        return lines if any(answer.headline.rstrip(".") in line for line in lines) else [answer.headline, *lines]

    def next_line(self) -> str:
        """Return the command that continues an unfinished run, or else `open_step`; "" for replays and examples."""
        record = self.run_data.run_record
        if not record.is_finished:
            return record.run_command
        return "" if record.replay or self.run_data.name in EXAMPLES else self.open_step()

    def open_step(self) -> str:
        """Return what would decide what the finished run left open, "" if nothing; subclasses override it."""
        record = self.run_data.run_record
        return next_step(self.analysis, None if record.imported else record.run_command)


def capitalise_first(name: str) -> str:
    """Return the name with its first letter in upper case."""
    return name[:1].upper() + name[1:]


def effects_page(
    study: str, run: str = "latest", baseline: str = "", metric: str = "", level: float = 0.95
) -> EffectsPage:
    """Return the page that answers a study's question from one recorded run.

    Parameters
    ----------
    study, run : name of the study and id of the run; "latest" is the newest run.
    baseline, metric : names; empty for those of the study.
    level : confidence of the intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, or a level that is not between 0.5 and 1.
    DataError : the run was not ingested, or its tables cannot be read.
    """
    return EffectsPage(load_run_data(study, run), baseline, metric, level)
