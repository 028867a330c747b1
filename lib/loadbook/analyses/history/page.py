"""The page of a study's history: each effect from run to run, and the recorded conditions that changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.analyses.history import compute
from loadbook.analyses.history.compute import ALARM_RATE, EffectSeries, RunSummary
from loadbook.analyses.history.runs import IMPORTED_HOSTS_TEXT, HistoryRuns, OnProgress, read_history
from loadbook.core.metrics import get_metric
from loadbook.core.units import format_percent, format_percent_range, join_words, pluralize, utc_text
from loadbook.report import checks, palette
from loadbook.report.blocks import DONE_MIME, Block, answer_box, lines_list, note_block, provenance_line, scope_nodes
from loadbook.report.nodes import DASH, Column, Details, Picture, Table, VerdictCell
from loadbook.report.verdicts import VerdictLine, verdict_list
from loadbook.stats.text import margin_text
from loadbook.store.paths import project_layout
from loadbook.store.run_record import ConditionChange
from loadbook.store.tables import metric_keys

if TYPE_CHECKING:
    import pandas as pd

NOTEBOOK = "history"


class HistoryPage:
    """The page of a study's history, made by `history_page`; public methods return the content of notebook cells."""

    def __init__(self, runs: HistoryRuns) -> None:
        self.runs, self.history = runs, runs.history

    @property
    def marks(self) -> dict[str, tuple[str, ...]]:
        """Run -> sentences on the conditions that changed since the previous run on the same hosts."""
        marks = {}
        for run in self.history.runs:
            changes = self._describe_changes(self.runs.marked_changes(run.run))
            if changes and len(self.runs.hosts) > 1:
                changes = (f"hosts {compute.host_set_letter(run.hosts)}: {changes[0]}", *changes[1:])
            if changes:
                marks[run.run] = changes
        return marks

    @property
    def tables(self) -> Path:
        """Folder with a folder of tables (parquet) for each run, from which every number of the page is calculated."""
        return self.runs.tables

    def data(self) -> pd.DataFrame:
        """Return every effect of every run as a tidy frame: treatment by treatment, each with its newest run first.

        `change`, `low` and `high` are the run's effect with its interval, all effects ratios minus 1. `level` is the
        mean effect of the consecutive runs `level_runs`, with its 95 % interval; NaN for a run that does not count.
        `started` is in epoch seconds; `kind` marks the rows of harness checks.
        """
        import pandas as pd

        keys = metric_keys(self.history.metric)
        rows = [
            _effect_numbers(series, index) | keys
            for series in self.history.series
            for index in reversed(range(len(series.points)))
        ]
        return pd.DataFrame(rows)

    def _describe_changes(self, changes: list[ConditionChange]) -> tuple[str, ...]:
        labels = {series.treatment: series.label for series in self.history.series}
        return tuple(checks.describe_change(change, labels) for change in changes)

    def scope(self) -> Block:
        """Show the question and one line on the runs: number, dates, metric, margin, hosts."""
        history, hosts = self.history, self.runs.hosts
        dates = dict.fromkeys(compute.date_text(run.started) for run in (history.runs[0], history.runs[-1]))
        if len(hosts) > 1:
            hosts = [f"{compute.host_set_letter(number)}: {name}" for number, name in enumerate(hosts)]
        parts = [
            f"HISTORY of {pluralize(len(history.runs), 'run')}, {history.included_runs} of which count",
            " to ".join(dates),
            f"change in {get_metric(history.metric).name} against the baseline",
            f"margin ±{margin_text(history.margin)}",
            f"hosts {'; '.join(hosts)}",
        ]
        return Block(scope_nodes(self.runs.question, " · ".join(parts)))

    def answer(self) -> Block:
        """Show whether the newest run is worse than earlier ones, whether effects changed, and the false-alarm rate."""
        kind = "worse" if self.history.alarms else "invalid"
        return Block(answer_box(compute.headline(self.history), compute.supporting_text(self.history), kind=kind))

    def effect_timeline(self) -> Block:
        """Show every effect by date, the levels between changes, and when recorded conditions changed."""
        from loadbook.analyses.history.figure import HistoryFigure

        if not any(series.points for series in self.history.series):
            return note_block(NO_EFFECTS_TEXT)
        return Block(Picture(HistoryFigure(self.history, self.marks)))

    def comparisons(self) -> Block:
        """Show a sentence for each treatment; a click opens the table of every effect of every run."""
        lines = []
        for series in self.history.series:
            alarm = bool(series.alarm and series.alarm.raised)
            glyph = palette.VERDICTS["worse"].glyph if alarm else {"aa": "○", "control": "□"}.get(series.kind, "●")
            sentence = f" {compute.series_sentence(series)}"
            lines.append(VerdictLine("worse" if alarm else "check", glyph, series.label, sentence))
        return Block(verdict_list(lines), Details("The numbers behind this figure", self.effects_table()))

    def effects_table(self) -> Table:
        """Return the table of every effect of every run, newest run first."""
        metric = get_metric(self.history.metric)
        points = [(series, point) for series in self.history.series for point in series.points]
        points.sort(key=lambda entry: -entry[1].started)
        columns = [Column("Run"), Column("Comparison"), Column("Verdict"), Column("Change, %", True),
                   Column("Interval, %", True), Column("Blocks", True), Column("Counts", wrap=True)]  # fmt: skip
        rows = []
        for series, point in points:
            effect = point.effect
            style, word = palette.VERDICTS[effect.verdict], palette.verdict_word(effect.verdict, metric)
            verdict: VerdictCell | str = VerdictCell(f"v-{effect.verdict}", style.glyph, word)
            if effect.kind != "treatment":
                verdict = palette.check_word(effect.kind, effect.check_state)
            numbers = [DASH, DASH]
            if effect.effect is not None and effect.interval is not None and effect.verdict != "invalid":
                interval = format_percent_range(effect.interval, 1, unit="")
                numbers = [format_percent(effect.effect, 1, unit=""), interval]
            counts = "yes" if point.is_included else f"no: {point.excluded_reason}"
            rows.append([point.run, series.label, verdict, *numbers, str(effect.blocks), counts])
        return Table("Every effect of every run", columns, rows)

    def which_count(self) -> Block:
        """Show every run, newest first: whether it counts, and which recorded conditions changed."""
        return Block(self.runs_table())

    def runs_table(self) -> Table:
        """Return the table of all runs, newest first."""
        several = len(self.runs.hosts) > 1
        columns = [Column("Run"), Column("Began (UTC)"), *([Column("Hosts")] if several else []), Column("Counts"),
                   Column(REMARKS_HEADER, wrap=True)]  # fmt: skip
        rows = [[run.run, utc_text(run.started) if run.started else DASH,
                 *([compute.host_set_letter(run.hosts) if run.hosts >= 0 else DASH] if several else []),
                 self._counting_text(run), self._remarks(run)]
                for run in reversed(self.history.runs)]  # fmt: skip
        return Table("Every run", columns, rows)

    def _counting_text(self, run: RunSummary) -> str:
        """Return "yes" or "no", or "2 of 3" if only some of the run's effects count."""
        points = [p for series in self.history.series for p in series.points if p.run == run.run]
        counting = sum(point.is_included for point in points)
        return "no" if not counting else "yes" if counting == len(points) else f"{counting} of {len(points)}"

    def _remarks(self, run: RunSummary) -> str:
        """Return why a run does not count, and which parts of its question and which recorded conditions changed."""
        reasons, questions = [run.excluded_reason], set[str]()
        points = ((s, k, p) for s in self.history.series for k, p in enumerate(s.points) if p.run == run.run)
        for series, k, point in points:
            if point.excluded_reason and not run.excluded_reason:
                reasons.append(f"{series.label}: {point.excluded_reason}")
            if changed := series.question_changes.get(k):
                questions.add(f"another question: {join_words(changed)}")
        changes = self._describe_changes(self.runs.changes_by_run.get(run.run, []))
        remarks = "; ".join(filter(None, [*reasons, *sorted(questions), *changes]))
        first = run.hosts >= 0 and run.run not in self.runs.changes_by_run and not run.excluded_reason
        return remarks or ("the first run on these hosts" if first else "nothing recorded")

    def doubts(self) -> Block:
        """Show sentences on the limits of a history as evidence."""
        lines = list(HISTORY_DOUBTS)
        if IMPORTED_HOSTS_TEXT in self.runs.hosts:
            lines.insert(0, "Imported runs are compared as if they were on the same hosts: nobody recorded that.")
        return Block(lines_list(lines))

    def provenance(self) -> Block:
        """Show where the page's data come from; its output also marks the notebook as executed to its end."""
        newest = self.history.runs[-1]
        known = self.runs.records.get(newest.run)
        version = known.run_record.loadbook_version if known else DASH
        pairs = [("study", self.history.study), ("newest run", newest.run), ("loadbook", version)]
        return Block(provenance_line(pairs), data={DONE_MIME: self.summary()})

    def summary(self) -> dict[str, Any]:
        """Return the answer, the number of runs and the treatments with an alarm, for index page and command line."""
        return {
            "notebook": NOTEBOOK,
            "study": self.history.study,
            "runs": len(self.history.runs),
            "alarms": [series.treatment for series in self.history.alarms],
            "sentences": [compute.headline(self.history)],
        }


def _effect_numbers(series: EffectSeries, index: int) -> dict[str, Any]:
    """Return the effect of one run, and the level to which the run belongs."""
    point, effect = series.points[index], series.points[index].effect
    level = next((segment for segment in series.segments if index in segment.indices), None)
    low, high = effect.interval or (None, None)
    level_low, level_high = level.interval if level else (None, None)
    return {
        "treatment": series.treatment, "kind": series.kind, "run": point.run, "started": point.started,
        "verdict": effect.verdict, "against": effect.question.get("what it is compared with"),
        "change": effect.effect, "low": low, "high": high, "confidence": effect.level, "blocks": effect.blocks,
        "counts": point.is_included, "reason": point.excluded_reason, "level": level.effect if level else None,
        "level_low": level_low, "level_high": level_high,
        "level_runs": tuple(series.points[k].run for k in level.indices) if level else (),
    }  # fmt: skip


REMARKS_HEADER = "Why not; what is otherwise than in the run before on these hosts"
NO_EFFECTS_TEXT = "Nothing to draw: no run has an effect."
HISTORY_DOUBTS = (
    "Effects are ratios to the baseline of their own run: what makes everything slower moves none of them.",
    "That a condition changed together with an effect does not tell that it is the cause; two runs on the old and the "
    "new condition, one right after the other, would.",
    "What stays worse is a new level after a few runs: an alarm rings when an effect worsens, not as long as it "
    "is bad.",
    "The rate of false alarms holds for runs that scatter normally around one level; with heavy tails there are more "
    "(docs/history.md has the counts).",
)


def history_page(
    study: str,
    metric: str = "",
    rate: float = ALARM_RATE,
    by_name: bool = False,
    on_progress: OnProgress = lambda done, total: None,
) -> HistoryPage:
    """Return the page of a study's history.

    Parameters
    ----------
    metric : name of the metric; empty for that of the newest run's study.
    rate : share of runs that raise a false alarm for any treatment while nothing changes.
    by_name : treat hosts with the same name as the same machine.
    on_progress : called with (number of runs read, number of all runs).

    Raises
    ------
    UsageError : the study or the metric does not exist, or the rate is not above 0 and at most 0.2.
    """
    return HistoryPage(read_history(project_layout(), study, on_progress, metric, rate, by_name))
