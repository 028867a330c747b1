"""A study through its runs in a cell: `lb.history(study)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadbook.explore.cards import Card
from loadbook.explore.drawn import Drawn
from loadbook.explore.run import must_be_recorded
from loadbook.records.layout import project_layout
from loadbook.report.blocks import Block
from loadbook.report.history import HistoryPage
from loadbook.report.history_runs import read_history
from loadbook.stats.history.result import ALARM_RATE, EffectSeries, EffectPoint
from loadbook.stats.wording import history as words

if TYPE_CHECKING:
    import pandas as pd


class History(Card):
    """What became of a study's effects from run to run.

    Attributes
    ----------
    page : what the report shows of it, block by block.
    """

    def __init__(self, page: HistoryPage) -> None:
        self.page = page

    @property
    def frame(self) -> pd.DataFrame:
        """One row per comparison and run as a plain pandas frame; change and bounds are ratios minus 1."""
        import pandas as pd

        rows = [_row(course, point) for course in self.page.history.series for point in course.points]
        return pd.DataFrame(rows)

    @property
    def runs(self) -> pd.DataFrame:
        """One row per run: when, on which hosts, why it is left out, what is recorded otherwise than before."""
        import pandas as pd

        marks = self.page.marks
        return pd.DataFrame([
            {"run": s.run, "started": pd.to_datetime(s.started, unit="s", utc=True), "hosts": s.hosts,
             "left_out": s.excluded_reason, "conditions_changed": "; ".join(marks.get(s.run, ()))}
            for s in self.page.history.runs
        ])  # fmt: skip

    @property
    def sentences(self) -> list[str]:
        """A sentence per comparison."""
        return [f"{course.label} {words.series_sentence(course)}" for course in self.page.history.series]

    def plot(self) -> Drawn:
        """Draw every effect by date, and where recorded conditions changed (figure 12)."""
        from loadbook.report.figures import history

        return Drawn(history, self.page.history, self.page.marks)

    def _shown(self) -> Block:
        """Return the answer and the sentences."""
        parts = [self.page.answer(), self.page.comparisons()]
        return Block("".join(part.html for part in parts), "\n".join([parts[0].text, *self.sentences]))


def _row(course: EffectSeries, point: EffectPoint) -> dict[str, object]:
    found = point.effect
    low, high = found.interval or (None, None)
    return {
        "run": point.run, "started": point.started, "hosts": point.hosts, "treatment": course.treatment,
        "kind": course.kind, "verdict": found.verdict, "change": found.effect, "low": low, "high": high,
        "blocks": found.blocks, "counts": point.is_included, "why": point.excluded_reason,
    }  # fmt: skip


def history(study: str, metric: str = "", rate: float = ALARM_RATE, by_name: bool = False) -> History:
    """Show where each effect of a study stands, since when, and whether the newest run is worse than its past.

    Parameters
    ----------
    metric : empty: that of the newest run's study.
    rate : the share of runs that raise a false alarm, in all comparisons together, while nothing changes.
    by_name : hosts of one name are held to be the same machine.

    Raises
    ------
    UsageError : no such study, metric or rate.
    """
    home = project_layout()
    must_be_recorded(home, study)
    return History(HistoryPage(read_history(home, study, lambda done, total: None, metric, rate, by_name)))
