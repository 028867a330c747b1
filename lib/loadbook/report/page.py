"""Blocks shared by all pages of a run: question, scope, harness checks, doubts, valid trials, set-up, provenance."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.calibration.citation import calibration_text
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, format_bytes, format_duration, pluralize
from loadbook.modes.plain.page import OrderCheck, page_of
from loadbook.report import checks, sections, verdicts
from loadbook.report.blocks import (
    CI_GLYPHS,
    DONE_MIME,
    URGENT_MIME,
    Block,
    note,
    note_block,
    provenance_line,
    scope_nodes,
)
from loadbook.report.ci import CiReport, ci_summary, evaluate_ci
from loadbook.report.figures import figure_class
from loadbook.report.nodes import Code, Details, Group, Heading, HtmlOnly, Paragraph, Picture, Preformatted, Strong
from loadbook.stats.ci import BUILD_GATE
from loadbook.stats.text import added_blocks_text
from loadbook.store.paths import project_layout
from loadbook.store.tables import RunData, load_run
from loadbook.study.plan import left_out_text

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.results import Analysis

DELAY_TEXTS = {"kernel": ["delay by the kernel (netem)"], "userspace": ["delay by a line in userspace"]}
MAX_SERVICES = 3
MIN_PAUSE_S = 300.0  # without a trial: longer than the set-up of any, and than the wait for quiet hosts
MOST_OPEN_LINES = 12  # of configuration that differ: they are the question of such a study
SAME_SIZE = 1.1  # sizes of responses up to this ratio are those of one page with other headers


class Page:
    """Base class of a run's pages; public methods that return a `Block` are each the content of one notebook cell.

    Parameters
    ----------
    data : the run.
    baseline : the treatment that others are compared with; "": as the study declares.
    metric : name of the metric without statistic; "": the study's.
    level : confidence level of the intervals.
    """

    notebook = ""
    # levels of validity rules that get sentences below the figure; doubts have their own section
    explained_levels: tuple[str, ...] = ("invalid", "note")

    def __init__(self, data: RunData, baseline: str = "", metric: str = "", level: float = 0.95) -> None:
        self.run_data = data
        self.baseline = baseline or None  # None: baseline and contrasts as the study declares them
        self.metric = metric or data.study.metric
        self.level = level

    @property
    def question(self) -> str:
        """The page's question, which is its title."""
        return self.run_data.study.question

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis that answers the study's question, on the page's metric."""
        return self.analyse(self.metric)

    @cached_property
    def values(self) -> pd.DataFrame:
        """The `RunData.values` of the page's metric: one row per trial, `value` in base units (s, bytes, 1/s)."""
        return self.run_data.values(self.metric)

    @property
    def is_of_rate(self) -> bool:
        """Whether the page's metric is a rate."""
        return get_metric(self.metric).kind == "rate"

    @cached_property
    def ci_report(self) -> CiReport | None:
        """The CI result by the policy with which the run was planned; None if it had no policy."""
        return evaluate_ci(self.run_data)

    @cached_property
    def notes(self) -> list[sections.ValidityMessage]:
        """Messages if the run is not finished, and on effects of the order of trials (carry-over, outliers)."""
        source = self.run_data.run_record.imported
        notes = sections.unfinished_notes(self.run_data)
        if not source or source.timed:
            notes += checks.order_notes(self.order_check, self.analysis, self.values, self.labels)
        return notes

    @cached_property
    def order_check(self) -> OrderCheck:
        """What the order of trials shows: a test for carry-over, and what the mode of the run tests besides."""
        return checks.check_order(self.run_data, self.analysis, self.values)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Treatment -> display name."""
        return self.run_data.study.labels

    @property
    def tables(self) -> Path:
        """Folder of the run's tables (parquet), from which every number of the page is calculated."""
        return self.run_data.paths.processed

    def data(self) -> pd.DataFrame:
        """Return the numbers of the answer as a tidy frame, not rounded: one row per treatment, its change and p.

        `report.verdicts.verdict_frame` describes the columns.
        """
        return verdicts.verdict_frame(self.analysis)

    def scope(self) -> Block:
        """Show the question and one line on the design: load, page, service, margin, trials, duration."""
        return Block(scope_nodes(self.question, " · ".join(scope_parts(self.run_data, self.analysis.margin))))

    def analyse(self, metric: str, statistic: str | None = None, baseline: str = "") -> Analysis:
        """Return the run's analysis on any metric, statistic and baseline, by the same rules.

        `statistic` None is the metric's default, `baseline` "" that of the page.
        """
        from loadbook.stats.analyse import analyse_strata

        return analyse_strata(
            self.run_data, metric=metric, statistic=statistic, baseline=baseline or self.baseline, level=self.level
        )

    def trust(self) -> Block:
        """Show in four cells whether the measurement can be trusted: A/A arm, positive control, valid trials, doubts.

        Below them is the CI result if the study has a CI policy.
        """
        strip = checks.check_strip(checks.harness_checks(self.run_data, self.analysis, self.notes))
        if not self.ci_report:
            return Block(strip)
        glyph = CI_GLYPHS[self.ci_report.result.outcome]
        return Block(strip, Paragraph(Strong(f"{glyph} {BUILD_GATE}"), f": {self.ci_report.outcome_text}", css="gate"))

    def figure(self, name: str, *data: Any, **options: Any) -> Block:
        """Show the figure `name` of `report.figures.FIGURES`; further arguments are those of its class."""
        return Block(Picture(figure_class(name)(*data, **options)))

    def order(self) -> Block:
        """Show every trial in order of execution, and below it the drift of the host."""
        from loadbook.report.figures.order import OrderFigure

        source = self.run_data.run_record.imported
        if source and not source.timed:
            return note_block(f"Not known: {source.conditions} does not say when each trial began.")
        if not (self.values["value"] > 0).any():
            return note_block("Not known: no trial has a value of this metric.")
        figure = OrderFigure.from_run(self.run_data, self.analysis, sections.exclusion_reasons(self.run_data))
        sentences = checks.order_sentences(self.order_check, self.analysis, self.values, self.labels)
        return Block(Picture(figure), note(" ".join(sentences)))

    def errors(self) -> Block:
        """Show errors per trial; this section is first on the page if a treatment has more errors than the baseline."""
        from loadbook.report.figures.errors import ErrorsFigure

        if not ErrorsFigure.has_data(self.analysis):
            return note_block(verdicts.no_errors_sentence(self.analysis))
        more = any(row.errors.kind == "more" for row in self.analysis.of_kind("treatment"))
        picture = Picture(ErrorsFigure.from_run(self.run_data, self.analysis))
        table = verdicts.error_table(self.analysis, self.labels)
        return Block(picture, table, data={URGENT_MIME: True} if more else {})

    def limit(self) -> Block:
        """Show the host metrics of the run's middle block, to see which resource was saturated."""
        from loadbook.report.figures.host_metrics import HostMetricsFigure

        if not HostMetricsFigure.has_data(self.run_data.traces):
            return note_block("Not known: no monitor recorded anything.")
        return Block(Picture(HostMetricsFigure.from_run(self.run_data)))

    @property
    def comparison_notes(self) -> list[sections.ValidityMessage]:
        """Doubts and notes that follow from the comparisons, such as unstable effects."""
        return [*checks.comparison_notes(self.analysis), *checks.rounding_doubts(self.run_data, self.analysis)]

    def doubts(self) -> Block:
        """Show all doubts, one line each."""
        return Block(
            sections.doubts_list([*sections.doubt_messages(self.run_data), *self.comparison_notes, *self.notes])
        )

    def which_count(self) -> Block:
        """Show the figure of validity rules and, below it, a sentence on each rule with hits."""
        return sections.validity_block(self.run_data, self.explained_levels)

    def setup(self) -> Block:
        """Show how treatments differ, on which hosts they ran, and which facts of the hosts changed during the run."""
        data = self.run_data
        changes, others = sections.fact_changes_table(data), sections.other_facts_table(data)
        words = enumerate((data.study.background or "").split("`"))
        background = Paragraph(*(Code(text) if number % 2 else text for number, text in words))
        differences = list(sections.config_differences(data).items())
        lines = [Group(Paragraph(Strong(name)), Preformatted(text)) for name, text in differences]
        few = sum(text.count("\n") + 1 for _, text in differences) <= MOST_OPEN_LINES
        unchanged = "Every recorded fact was the same before and after the run."
        return Block(
            HtmlOnly(background) if data.study.background else None,
            Heading("How do the treatments differ?"),
            sections.treatment_differences(data),
            note("“=” is the baseline’s value."),
            Details("The lines of configuration that differ from the baseline’s", *lines, is_open=few)
            if lines
            else None,
            Heading("On which hosts?"),
            sections.host_table(data),
            Details("Every other recorded fact", others) if others.rows else None,
            Heading("What changed on them during the run?") if changes.rows else None,
            changes if changes.rows else Paragraph(unchanged if others.rows else "No facts of any host were recorded."),
        )

    def every_trial(self) -> Block:
        """Show the table of every trial in order of execution, excluded trials with the reason."""
        table = sections.trial_table(self.run_data, self.metric, self.labels)
        return Block(Details(f"Every trial ({len(table.rows)})", table))

    def provenance(self) -> Block:
        """Show where the page's data come from; its output also marks the notebook as executed to its end."""
        pairs = sections.provenance_pairs(self.run_data)
        if calibrated := calibration_text(self.run_data):
            pairs.append(("load generator", calibrated))
        return Block(provenance_line(pairs), data={DONE_MIME: self.summary()})

    def summary(self) -> dict[str, Any]:
        """Return the summary of this run for the index page and the command line."""
        return {
            "notebook": self.notebook,
            "study": self.run_data.name,
            "run": self.run_data.run,
            "question": self.run_data.study.question,
            "started": self.run_data.run_record.started,
            "ended": self.run_data.run_record.ended,
            "paused_s": paused_s(self.run_data.trials),
            "origin": "; ".join(_origin_parts(self.run_data)),
            **({"gate": ci_summary(self.ci_report)} if self.ci_report else {}),
        } | sections.trial_counts(self.run_data)


def load_run_data(study: str, run: str = "latest") -> RunData:
    """Load a run of the project that contains the current folder."""
    return load_run(project_layout(), study, run)


def scope_parts(data: RunData, margin: float) -> list[str]:
    """Return the parts of the line on the design: origin, load, page and service, margin, trials, duration.

    Parts that an imported run did not record are left out.
    """
    run = data.run_record
    served = data.trials["response_bytes"].dropna()
    trials_text = NBSP.join(map(str, [len(data.plan.treatments), "treatments", "×", data.plan.blocks, "blocks"]))
    trials_text += page_of(data.study).first_blocks_text(data.plan)
    last, source, mode = run.ended or data.trials["started"].max(), run.imported, page_of(data.study)
    return [
        *_origin_parts(data),
        ", ".join([*sorted(set(data.trials["tool"])), *_load_parts(data), *sections.driver_scope(data)]),
        *DELAY_TEXTS.get(run.delay or "", []),
        *([f"{_page_text(data)}{_services_text(data)}"] if not source or len(served) else []),
        f"{mode.decided_by(data.study, margin)}, declared {'with the import' if source else 'before the run'}",
        *([] if data.study.stopping.rule == "fixed" else [data.study.stopping.describe()]),
        trials_text + ("" if source and not source.timed else _duration_text(data, last)),
        *filter(None, [left_out_text(data.plan.left_out)]),
    ]


def paused_s(trials: pd.DataFrame) -> float:
    """Return the seconds of a run in which it paused: no trial ran for more than `MIN_PAUSE_S` (300 s).

    `trials` has the columns started (epoch seconds) and duration_s.
    """
    timed = trials.dropna(subset=["started", "duration_s"]).sort_values("started")
    gaps = timed["started"] - (timed["started"] + timed["duration_s"]).cummax().shift()
    return float(gaps[gaps > MIN_PAUSE_S].sum())


def _duration_text(data: RunData, last: float) -> str:
    """Return how long a run measured, and how long it paused, as the end of a part."""
    paused = paused_s(data.trials)
    text = f", {format_duration(last - data.run_record.started - paused)}"
    return f"{text} and {format_duration(paused)} of pauses" if paused else text


def _page_text(data: RunData) -> str:
    """Return the size of the responses, or the smallest and the largest where sizes of treatments differ."""
    sizes = data.trials.groupby("treatment")["response_bytes"].median().dropna()
    if sizes.empty:
        return f"page {data.study.workload.path}"
    if sizes.max() > SAME_SIZE * sizes.min():
        return f"pages of {format_bytes(sizes.min())} to {format_bytes(sizes.max())}"
    return f"page of {format_bytes(data.trials['response_bytes'].dropna().mode().iloc[0])}"


def _services_text(data: RunData) -> str:
    """Return " on nginx 1.22.1, go-app 1.0": the services in the order in which requests reach them."""
    versions, hosts = data.run_record.service_versions, data.run_record.hosts
    roles = [role for role in data.study.roles if role != data.study.workload.role]
    aliases = [alias for role in roles for alias, host in hosts.items() if role in host.roles]
    names = dict.fromkeys(name for alias in aliases if alias in versions for name in versions[alias].split(", "))
    return f" on {', '.join([*names][:MAX_SERVICES])}" if names else ""


def _origin_parts(data: RunData) -> list[str]:
    """Return remarks on a run that was imported, is a replay, or is exploratory; empty for any other run."""
    source, replayed, added = data.run_record.imported, data.run_record.replay, data.plan.added
    if source:
        word = f"conditions are as {source.conditions} says"
        changed = f"EXPLORATORY: {pluralize(added, 'block differs', 'blocks differ')} from an earlier import"
        return [f"IMPORTED from {source.folder}: loadbook measured nothing, {word}", *([changed] if added else [])]
    replay = [f"REPLAY of run {replayed}: nothing was measured anew"] if replayed else []
    return replay + ([f"EXPLORATORY: {added_blocks_text(added)}"] if added else [])


def _load_parts(data: RunData) -> list[str]:
    """Return texts on the load of a run's trials: rates or numbers of connections, as far as they are known."""
    if (parts := page_of(data.study).load_parts(data.study)) is not None:
        return parts
    texts = []
    rates = sorted(set(data.trials["offered_per_s"].dropna()))
    if rates:
        texts.append(" to ".join(f"{rate:,.0f}" for rate in dict.fromkeys((rates[0], rates[-1]))) + " requests/s")
    if "closed" in set(data.trials["load_model"]):
        connections = sorted(set(data.trials["concurrency"].dropna()))
        number = " to ".join(f"{n:.0f}" for n in dict.fromkeys(connections[:1] + connections[-1:]))
        texts.append("closed loop" + (f", {number} connections" if number else ""))
    return texts
