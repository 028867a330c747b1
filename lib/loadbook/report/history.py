"""The page of a study's history: what became of each effect from run to run, and what else changed with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, format_percent, format_percent_range
from loadbook.records.conditions import ConditionChange
from loadbook.records.layout import project_layout
from loadbook.report import changed, palette
from loadbook.report.blocks import Block, render_block, clean, notebook_style, render
from loadbook.report.history_runs import IMPORTED_HOSTS_TEXT, HistoryRuns, read_history
from loadbook.report.notebooks import DONE_MIME
from loadbook.report.show import figure_block
from loadbook.report.tables import DASH, Column, VerdictCell, Table, table_text, table_markup
from loadbook.report.verdicts import AnswerSummary, VerdictLine
from loadbook.stats.history.result import ALARM_RATE, EffectSeries, EffectPoint, RunSummary
from loadbook.stats.wording import history as words
from loadbook.stats.wording.sentences import margin_text

OnProgress = Callable[[int, int], None]
NOTEBOOK = "history"


class HistoryPage:
    """A study through all of its runs; every method returns what a cell shows. See `history_page`."""

    def __init__(self, runs: HistoryRuns) -> None:
        self.runs, self.history = runs, runs.history

    @property
    def marks(self) -> dict[str, tuple[str, ...]]:
        """Run -> what is recorded otherwise than in the run before it on the same hosts, in words."""
        found = [(run, self._describe_changes(self.runs.marked_changes(run.run))) for run in self.history.runs]
        several = len(self.runs.hosts) > 1
        return {
            run.run: (f"hosts {words.host_set_letter(run.hosts)}: {changes[0]}", *changes[1:]) if several else changes
            for run, changes in found
            if changes
        }

    def _describe_changes(self, changes: list[ConditionChange]) -> tuple[str, ...]:
        return tuple(changed.describe_change(change, self.labels) for change in changes)

    @property
    def labels(self) -> dict[str, str]:
        """Each comparison as readers see it."""
        return {course.treatment: course.label for course in self.history.series}

    def scope(self) -> Block:
        """Show the question and, in one line, what its history is made of."""
        question, line = self.runs.question, " · ".join(self._scope_parts())
        block = render_block("scope.html.j2", f"{question}\n{line}", question=question, line=line)
        return Block(notebook_style() + block.html, block.text)

    def _scope_parts(self) -> list[str]:
        found = self.history
        ends = dict.fromkeys(words.date_text(run.started) for run in (found.runs[0], found.runs[-1]))
        several = len(self.runs.hosts) > 1
        hosts = [f"{words.host_set_letter(n)}: {name}" for n, name in enumerate(self.runs.hosts)] if several else self.runs.hosts
        return [
            f"HISTORY of {words.run_count_text(len(found.runs))}, {found.included_runs} of which count",
            " to ".join(ends),
            f"change in {get_metric(found.metric).name} against the baseline",
            f"margin ±{margin_text(found.margin)}",
            f"hosts {'; '.join(hosts)}",
        ]

    def answer(self) -> Block:
        """Show whether the newest run is worse than its past, whether effects changed, and how sure that is."""
        kind = "worse" if self.history.alarms else "invalid"
        headline, support = words.headline(self.history), words.supporting_text(self.history)
        answer = AnswerSummary(kind, palette.VERDICTS["worse"].glyph, "", headline, support, (), ())
        return render_block("answer.html.j2", f"{headline}\n{support}", answer=answer)

    def effect_timeline(self) -> Block:
        """Show every effect by date, the levels between changes, and where recorded conditions changed."""
        from loadbook.report.figures import history

        if not any(course.points for course in self.history.series):
            return Block(str(render("note.html.j2", text=NO_EFFECTS_TEXT)), NO_EFFECTS_TEXT)
        return figure_block(history, self.history, self.marks)

    def comparisons(self) -> Block:
        """Show a sentence for each comparison, then every effect of every run, which is one click away."""
        lines = [_history_line(course, words.series_sentence(course)) for course in self.history.series]
        table = self.effects_table()
        inside = render("details.html.j2", summary="The numbers behind this figure", inside=table_markup(table))
        html = render("effects.html.j2", figure="", lines=lines, table=inside)
        text = "\n".join(f"{line.glyph} {line.name}{line.text}" for line in lines)
        return Block(str(html), str(clean(f"{text}\n\n{table_text(table)}")))

    def effects_table(self) -> Table:
        """Return every effect of every run, the newest first."""
        points = [(course, point) for course in self.history.series for point in course.points]
        points.sort(key=lambda found: -found[1].started)
        columns = [Column("Run"), Column("Comparison"), Column("Verdict"), Column("Change, %", True),
                   Column("Interval, %", True), Column("Blocks", True), Column("Counts", wrap=True)]  # fmt: skip
        rows = [[point.run, course.label, _point_verdict_cell(point, self.history.metric), *_point_numbers(point),
                 "yes" if point.is_included else f"no: {point.excluded_reason}"] for course, point in points]  # fmt: skip
        return Table("Every effect of every run", columns, rows)

    def which_count(self) -> Block:
        """Show every run, the newest first: whether it counts, and what is recorded otherwise than before."""
        table = self.runs_table()
        return Block(str(table_markup(table)), table_text(table))

    def runs_table(self) -> Table:
        """Return every run, the newest first."""
        several = len(self.runs.hosts) > 1
        columns = [Column("Run"), Column("Began (UTC)"), *([Column("Hosts")] if several else []), Column("Counts"),
                   Column(REMARKS_HEADER, wrap=True)]  # fmt: skip
        rows = [[run.run, words.datetime_text(run.started) if run.started else DASH,
                 *([words.host_set_letter(run.hosts) if run.hosts >= 0 else DASH] if several else []),
                 self._counting_text(run), self._remarks(run)]
                for run in reversed(self.history.runs)]  # fmt: skip
        return Table("Every run", columns, rows)

    def _counting_text(self, run: RunSummary) -> str:
        """Return of how many of its comparisons a run counts."""
        points = [p for course in self.history.series for p in course.points if p.run == run.run]
        counting = sum(point.is_included for point in points)
        return "no" if not counting else "yes" if counting == len(points) else f"{counting} of {len(points)}"

    def _remarks(self, run: RunSummary) -> str:
        """Return why a run does not count, which question is another one, and every condition that changed."""
        points = [
            (course, k) for course in self.history.series for k, p in enumerate(course.points) if p.run == run.run
        ]
        new_questions = {words.changed_question_text(course, k) for course, k in points if k in course.question_changes}
        reasons = [] if run.excluded_reason else [words.exclusion_text(course, course.points[k]) for course, k in points]
        remarks = [run.excluded_reason, *filter(None, reasons), *sorted(new_questions), *self._describe_changes(self.runs.changes_by_run.get(run.run, []))]
        first = run.hosts >= 0 and run.run not in self.runs.changes_by_run and not run.excluded_reason
        return "; ".join(filter(None, remarks)) or ("the first run on these hosts" if first else "nothing recorded")

    def doubts(self) -> Block:
        """Show in words what the history cannot tell."""
        lines = list(HISTORY_DOUBTS)
        if IMPORTED_HOSTS_TEXT in self.runs.hosts:
            lines.insert(0, "Imported runs are held together as if they were on the same hosts: nobody recorded that.")
        return render_block("lines.html.j2", "\n".join(f"- {line}" for line in lines), lines=lines)

    def provenance(self) -> Block:
        """Show where the page comes from; as the last block it also tells the runner that the end was reached."""
        newest = self.history.runs[-1]
        known = self.runs.records.get(newest.run)
        version = known.run_json["loadbook_version"] if known else DASH
        pairs = [("study", self.history.study), ("newest run", newest.run), ("loadbook", version)]
        block = render_block("provenance.html.j2", "\n".join(f"{k}: {v}" for k, v in pairs), pairs=pairs)
        return Block(block.html, block.text, {DONE_MIME: self.summary()})

    def summary(self) -> dict[str, Any]:
        """Return what this page says in short."""
        return {
            "notebook": NOTEBOOK,
            "study": self.history.study,
            "runs": len(self.history.runs),
            "alarms": [course.treatment for course in self.history.alarms],
            "sentences": [words.headline(self.history)],
        }


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


def _history_line(course: EffectSeries, text: str) -> VerdictLine:
    alarm = bool(course.alarm and course.alarm.raised)
    glyph = palette.VERDICTS["worse"].glyph if alarm else {"aa": "○", "control": "□"}.get(course.kind, "●")
    return VerdictLine("worse" if alarm else "check", glyph, course.label, f" {text}")


def _point_verdict_cell(point: EffectPoint, metric: str) -> VerdictCell | str:
    if point.effect.kind != "treatment":
        return {True: "passed", False: "failed", None: "not judged"}[point.effect.passed]
    style = palette.VERDICTS[point.effect.verdict]
    return VerdictCell(f"v-{point.effect.verdict}", style.glyph, palette.verdict_word(point.effect.verdict, get_metric(metric)))


def _point_numbers(point: EffectPoint) -> list[str]:
    found = point.effect
    if found.effect is None or found.interval is None or found.verdict == "invalid":
        return [DASH, DASH, str(found.blocks)]
    ends = format_percent_range(found.interval, 1)
    return [_without_percent(format_percent(found.effect, 1)), _without_percent(ends), str(found.blocks)]


def _without_percent(text: str) -> str:
    return text.removesuffix(f"{NBSP}%")


def history_page(
    study: str, metric: str = "", rate: float = ALARM_RATE, by_name: bool = False, on_progress: OnProgress = lambda done, total: None
) -> HistoryPage:
    """Return the page of a study's history.

    Parameters
    ----------
    metric : empty: that of the newest run's study.
    rate : the share of runs that raise a false alarm, in all comparisons together, while nothing changes.
    by_name : hosts of one name are held to be the same machine.
    on_progress : called with the number of runs read and of all runs.

    Raises
    ------
    UsageError : no such study, metric or rate.
    """
    return HistoryPage(read_history(project_layout(), study, on_progress, metric, rate, by_name))
