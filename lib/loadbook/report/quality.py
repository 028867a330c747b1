"""The page on a run's data: which trials count, did the hosts hold still, whose fault were the errors."""

from __future__ import annotations

from loadbook.core.gates import title_of
from loadbook.core.units import seconds
from loadbook.records import manifest
from loadbook.report import noise, trials, trust, within
from loadbook.report.blocks import Block, block, render
from loadbook.report.page import Page, note, nothing, run_data
from loadbook.report.tables import DASH, Column, Table, plain, safe_table


class QualityPage(Page):
    """Can the data of a run be trusted? See `quality_page`."""

    notebook = "run_quality"
    explained = ("invalid", "doubt", "unchecked", "note")

    @property
    def question(self) -> str:
        """What the page answers, whatever the study asks."""
        return "Can the data of this run be trusted?"

    def answer(self) -> Block:
        """Show how many trials count, what the checks of the laboratory said, and how many doubts there are."""
        number, cells = trials.count(self.data), trust.trust(self.data, self.analysis, self.notes)
        checks = {"✓": "passed", "✕": "failed", "!": "not judged"}
        said = ", ".join(
            f"{name} {checks[cell.glyph]}" for name, cell in zip(("A/A arm", "control"), cells, strict=False)
        )
        headline = f"{number['valid']} of {number['planned']} trials count; {said}."
        return block("quality.html.j2", headline, headline=headline, cells=cells)

    def noise(self) -> Block:
        """Show per treatment how much its trials scatter, and what difference so many blocks can detect."""
        table = noise.table(self.values, self.labels)
        text = noise.sentence(self.values, self.analysis)
        return Block(str(render("noise.html.j2", text=text, table=safe_table(table))), f"{text}\n{plain(table)}")

    def within(self) -> Block:
        """Show whether rates held still within trials, and what they are without the warm-up that was found."""
        text = within.sentence(self.data)
        if not (set(self.data.samples["metric"]) & {within.METRIC}):
            return note(text)
        table = within.table(self.data, self.labels)
        return Block(str(render("noise.html.j2", text=text, table=safe_table(table))), f"{text}\n{plain(table)}")

    def unread(self) -> Block:
        """Show every problem with its place: trial, host, file and line."""
        problems = self.data.problems
        if problems.empty:
            return nothing("Everything was read, and no gate spoke.")
        rows = [
            [p.trial if isinstance(p.trial, str) else "whole run", p.level, title_of(p.name), _place(p), p.message]
            for p in trials.each(problems)
        ]
        columns = [Column("Trial"), Column("Level"), Column("Gate"), Column("Where"), Column("What", wrap=True)]
        table = Table("Problems", columns, rows)
        inside = render("details.html.j2", summary=f"{len(rows)} lines", inside=safe_table(table))
        return Block(str(inside), plain(table))

    def phases(self) -> Block:
        """Show how long each phase of a trial took, and the clocks of the hosts."""
        table = phase_table(self.data.paths.trials)
        if not table.rows:
            return nothing("No trial recorded its phases.")
        return Block(str(safe_table(table)), plain(table))


def quality_page(study: str, run: str = "latest", metric: str = "") -> QualityPage:
    """Return the page on one run's data; see `effects_page` for parameters and errors."""
    return QualityPage(run_data(study, run), metric=metric)


def _place(problem: object) -> str:
    parts = [getattr(problem, name) for name in ("host", "file")]
    shown = " ".join(p for p in parts if isinstance(p, str))
    line = getattr(problem, "line", None)
    return (f"{shown}:{line:.0f}" if line == line and line is not None and line else shown) or DASH


def phase_table(folder: object) -> Table:
    """Return the shortest, median and longest time of each phase over all recorded trials."""
    from pathlib import Path

    took: dict[str, list[float]] = {}
    for path in sorted(Path(str(folder)).glob("*/trial.json")):
        for phase, time_s in manifest.read(path.parent).phases_s.items():
            took.setdefault(phase, []).append(time_s)
    rows = [
        [phase.replace("_", " "), str(len(t)), *map(seconds, (min(t), sorted(t)[len(t) // 2], max(t)))]
        for phase, t in took.items()
    ]
    heads = ("Trials", "Shortest", "Median", "Longest")
    return Table("Phases of a trial", [Column("Phase"), *(Column(h, True) for h in heads)], rows)
