"""The page of a study's history: what became of each effect from run to run, and what else changed with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import NBSP, percent, percent_range
from loadbook.records.conditions import Change
from loadbook.records.layout import layout
from loadbook.report import changed, palette
from loadbook.report.blocks import Block, block, clean, notebook_style, render
from loadbook.report.history_runs import IMPORTED_HOSTS, Runs, read_history
from loadbook.report.notebooks import DONE
from loadbook.report.show import show
from loadbook.report.tables import DASH, Column, Said, Table, plain, safe_table
from loadbook.report.verdicts import Answer, Line
from loadbook.stats.history.result import ALARM_RATE, Course, Point, Seen
from loadbook.stats.wording import history as words
from loadbook.stats.wording.sentences import margin_text

Tick = Callable[[int, int], None]
NOTEBOOK = "history"


class HistoryPage:
    """A study through all of its runs; every method returns what a cell shows. See `history_page`."""

    def __init__(self, runs: Runs) -> None:
        self.runs, self.history = runs, runs.history

    @property
    def marks(self) -> dict[str, tuple[str, ...]]:
        """Run -> what is recorded otherwise than in the run before it on the same hosts, in words."""
        found = [(seen, self._said(self.runs.marked(seen.run))) for seen in self.history.runs]
        several = len(self.runs.hosts) > 1
        return {
            seen.run: (f"hosts {words.letter(seen.hosts)}: {those[0]}", *those[1:]) if several else those
            for seen, those in found
            if those
        }

    def _said(self, changes: list[Change]) -> tuple[str, ...]:
        return tuple(changed.said(change, self.labels) for change in changes)

    @property
    def labels(self) -> dict[str, str]:
        """Each comparison as readers see it."""
        return {course.treatment: course.label for course in self.history.courses}

    def scope(self) -> Block:
        """Show the question and, in one line, what its history is made of."""
        question, line = self.runs.question, " · ".join(self._scope())
        shown = block("scope.html.j2", f"{question}\n{line}", question=question, line=line)
        return Block(notebook_style() + shown.html, shown.text)

    def _scope(self) -> list[str]:
        found = self.history
        ends = dict.fromkeys(words.day(seen.started) for seen in (found.runs[0], found.runs[-1]))
        several = len(self.runs.hosts) > 1
        hosts = [f"{words.letter(n)}: {name}" for n, name in enumerate(self.runs.hosts)] if several else self.runs.hosts
        return [
            f"HISTORY of {words.runs(len(found.runs))}, {found.counting} of which count",
            " to ".join(ends),
            f"change in {metric_of(found.metric).name} against the baseline",
            f"margin ±{margin_text(found.margin)}",
            f"hosts {'; '.join(hosts)}",
        ]

    def answer(self) -> Block:
        """Show whether the newest run is worse than its past, whether effects changed, and how sure that is."""
        kind = "worse" if self.history.alarms else "invalid"
        headline, support = words.headline(self.history), words.supporting(self.history)
        said = Answer(kind, palette.VERDICTS["worse"].glyph, "", headline, support, (), ())
        return block("answer.html.j2", f"{headline}\n{support}", said=said)

    def figure_12(self) -> Block:
        """Show every effect by date, the levels between changes, and where recorded conditions changed."""
        from loadbook.report.figures import history

        if not any(course.points for course in self.history.courses):
            return Block(str(render("note.html.j2", text=NOTHING)), NOTHING)
        return show(history, self.history, self.marks)

    def comparisons(self) -> Block:
        """Show a sentence for each comparison, then every effect of every run, which is one click away."""
        said = [_line(course, words.sentence(course)) for course in self.history.courses]
        table = self.effects()
        inside = render("details.html.j2", summary="The numbers behind this figure", inside=safe_table(table))
        html = render("effects.html.j2", figure="", said=said, table=inside)
        text = "\n".join(f"{line.glyph} {line.name}{line.text}" for line in said)
        return Block(str(html), str(clean(f"{text}\n\n{plain(table)}")))

    def effects(self) -> Table:
        """Return every effect of every run, the newest first."""
        points = [(course, point) for course in self.history.courses for point in course.points]
        points.sort(key=lambda found: -found[1].started)
        columns = [Column("Run"), Column("Comparison"), Column("Verdict"), Column("Change, %", True),
                   Column("Interval, %", True), Column("Blocks", True), Column("Counts", wrap=True)]  # fmt: skip
        rows = [[point.run, course.label, _verdict(point, self.history.metric), *_numbers(point),
                 "yes" if point.counts else f"no: {point.why}"] for course, point in points]  # fmt: skip
        return Table("Every effect of every run", columns, rows)

    def which_count(self) -> Block:
        """Show every run, the newest first: whether it counts, and what is recorded otherwise than before."""
        table = self.table()
        return Block(str(safe_table(table)), plain(table))

    def table(self) -> Table:
        """Return every run, the newest first."""
        several = len(self.runs.hosts) > 1
        columns = [Column("Run"), Column("Began (UTC)"), *([Column("Hosts")] if several else []), Column("Counts"),
                   Column(OTHERWISE, wrap=True)]  # fmt: skip
        rows = [[seen.run, words.moment(seen.started) if seen.started else DASH,
                 *([words.letter(seen.hosts) if seen.hosts >= 0 else DASH] if several else []),
                 self._counting(seen), self._otherwise(seen)]
                for seen in reversed(self.history.runs)]  # fmt: skip
        return Table("Every run", columns, rows)

    def _counting(self, seen: Seen) -> str:
        """Return of how many of its comparisons a run counts."""
        points = [p for course in self.history.courses for p in course.points if p.run == seen.run]
        counting = sum(point.counts for point in points)
        return "no" if not counting else "yes" if counting == len(points) else f"{counting} of {len(points)}"

    def _otherwise(self, seen: Seen) -> str:
        """Return why a run does not count, which question is another one, and every condition that changed."""
        points = [
            (course, k) for course in self.history.courses for k, p in enumerate(course.points) if p.run == seen.run
        ]
        anew = {words.asked_anew(course, k) for course, k in points if k in course.asked_anew}
        why = [] if seen.left_out else [words.counted_as(course, course.points[k]) for course, k in points]
        said = [seen.left_out, *filter(None, why), *sorted(anew), *self._said(self.runs.changed.get(seen.run, []))]
        first = seen.hosts >= 0 and seen.run not in self.runs.changed and not seen.left_out
        return "; ".join(filter(None, said)) or ("the first run on these hosts" if first else "nothing recorded")

    def doubts(self) -> Block:
        """Show in words what the history cannot tell."""
        lines = list(DOUBTS)
        if IMPORTED_HOSTS in self.runs.hosts:
            lines.insert(0, "Imported runs are held together as if they were on the same hosts: nobody recorded that.")
        return block("lines.html.j2", "\n".join(f"- {line}" for line in lines), lines=lines)

    def provenance(self) -> Block:
        """Show where the page comes from; as the last block it also tells the runner that the end was reached."""
        newest = self.history.runs[-1]
        known = self.runs.records.get(newest.run)
        version = known.run_json["loadbook_version"] if known else DASH
        pairs = [("study", self.history.study), ("newest run", newest.run), ("loadbook", version)]
        shown = block("provenance.html.j2", "\n".join(f"{k}: {v}" for k, v in pairs), pairs=pairs)
        return Block(shown.html, shown.text, {DONE: self.summary()})

    def summary(self) -> dict[str, Any]:
        """Return what this page says in short."""
        return {
            "notebook": NOTEBOOK,
            "study": self.history.study,
            "runs": len(self.history.runs),
            "alarms": [course.treatment for course in self.history.alarms],
            "sentences": [words.headline(self.history)],
        }


OTHERWISE = "Why not; what is otherwise than in the run before on these hosts"
NOTHING = "Nothing to draw: no run has an effect."
DOUBTS = (
    "Effects are ratios to the baseline of their own run: what makes everything slower moves none of them.",
    "That a condition changed together with an effect does not tell that it is the cause; two runs on the old and the "
    "new condition, one right after the other, would.",
    "What stays worse is a new level after a few runs: an alarm rings when an effect worsens, not as long as it "
    "is bad.",
    "The rate of false alarms holds for runs that scatter normally around one level; with heavy tails there are more "
    "(docs/history.md has the counts).",
)


def _line(course: Course, text: str) -> Line:
    alarm = bool(course.alarm and course.alarm.speaks)
    glyph = palette.VERDICTS["worse"].glyph if alarm else {"aa": "○", "control": "□"}.get(course.kind, "●")
    return Line("worse" if alarm else "check", glyph, course.label, f" {text}")


def _verdict(point: Point, metric: str) -> Said | str:
    if point.effect.kind != "treatment":
        return {True: "passed", False: "failed", None: "not judged"}[point.effect.passed]
    look = palette.VERDICTS[point.effect.verdict]
    return Said(f"v-{point.effect.verdict}", look.glyph, palette.verdict_word(point.effect.verdict, metric_of(metric)))


def _numbers(point: Point) -> list[str]:
    found = point.effect
    if found.effect is None or found.interval is None or found.verdict == "invalid":
        return [DASH, DASH, str(found.blocks)]
    ends = percent_range(found.interval, 1)
    return [_bare(percent(found.effect, 1)), _bare(ends), str(found.blocks)]


def _bare(text: str) -> str:
    return text.removesuffix(f"{NBSP}%")


def history_page(
    study: str, metric: str = "", rate: float = ALARM_RATE, by_name: bool = False, tick: Tick = lambda done, total: None
) -> HistoryPage:
    """Return the page of a study's history.

    Parameters
    ----------
    metric : empty: that of the newest run's study.
    rate : the share of runs that raise a false alarm, in all comparisons together, while nothing changes.
    by_name : hosts of one name are held to be the same machine.
    tick : is told how many of how many runs are read.

    Raises
    ------
    UsageError : no such study, metric or rate.
    """
    return HistoryPage(read_history(layout(), study, tick, metric, rate, by_name))
