"""One recorded run in a cell: its frames, comparisons, figures and raw bytes behind one name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import UsageError
from loadbook.core.names import unknown_name_error
from loadbook.design.gallery import study_files
from loadbook.explore import chosen, measured, raw, verdicts
from loadbook.explore.against import Moves
from loadbook.explore.cards import Card
from loadbook.explore.plots import Plots
from loadbook.explore.why import Why
from loadbook.explore.zoom import Zoomed
from loadbook.records.layout import EXAMPLE_STUDY, Layout, project_layout
from loadbook.records.rundata import RunData, load_run
from loadbook.report import trials as counted
from loadbook.report.blocks import Block, render_block
from loadbook.report.build import ensure_ingested
from loadbook.report.compare_runs import PREVIOUS
from loadbook.report.page import Page, scope_parts
from loadbook.report.tables import Column, Table, table_text, table_markup

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.explore.verdicts import Verdicts

FRAMES = ("trials", "measurements", "samples", "traces", "problems")


class Run(Card):
    """A recorded run of a study.

    Attributes
    ----------
    trials, measurements, samples, traces, problems : plain pandas frames (docs/data-format.md has every column).
    plot : the figures of the reports, `run.plot.order()`.
    data : what the reports read (`records.rundata.RunData`), with plan, facts and paths.

    Examples
    --------
    >>> run = lb.load("example")
    >>> run.compare("latency p99")
    >>> run.plot.order()
    >>> run.raw("t0001")
    """

    def __init__(self, data: RunData, left_out: int = 0) -> None:
        self.data, self._left_out = data, left_out
        self.study, self.run = data.study.name, data.run

    @property
    def trials(self) -> pd.DataFrame:
        """One row per trial: treatment, block, status, valid, gates, and the level of each factor."""
        return self.data.trials

    @property
    def measurements(self) -> pd.DataFrame:
        """What the tool measured: a row per trial, driver, metric and statistic; driver "*" is the total."""
        return self.data.measurements

    @property
    def samples(self) -> pd.DataFrame:
        """What the tool told within trials: rates by the second, bins of histograms."""
        return self.data.samples

    @property
    def traces(self) -> pd.DataFrame:
        """What the hosts did: a row per trial, host, time (s since the measurement began), metric and item."""
        return self.data.traces

    @property
    def problems(self) -> pd.DataFrame:
        """What gates and readers said, with trial, host, file and line."""
        return self.data.problems

    @cached_property
    def plot(self) -> Plots:
        """The figures: ``run.plot.`` and the Tab key list them, each with its docstring."""
        return Plots(self.data)

    @property
    def treatments(self) -> list[str]:
        """Names of the treatments, the baseline first."""
        return list(self.data.plan["treatments"])

    @property
    def metrics(self) -> list[str]:
        """What was measured, by the names that `compare` and `wide` take: "ok_per_s", "latency p99"."""
        return list(measured.measured(self.data))

    def wide(self, *metrics: str) -> pd.DataFrame:
        """Return the trials in order of execution with a column per metric (default: the study's), in base units.

        Raises
        ------
        UsageError : a metric that was not measured; the nearest of `run.metrics` come first.
        """
        return measured.wide(self.data, metrics or (self.data.study.metric,))

    def slowest(self, number: int = 5, metric: str = "") -> pd.DataFrame:
        """Return the trials that are worst beside the median of their treatment, the worst first.

        `away` is the ratio to that median minus 1, `metric` the study's if none is given. Trials that do not count are
        among them; nothing is tested here.
        """
        if not isinstance(number, int):
            raise UsageError(f"how many comes first, not {number!r}", 'run.slowest(5, "latency p99")')
        return measured.worst(self.data, metric).head(number)

    def why(self, trial: str) -> Why:
        """Show what was unlike in one trial: what its hosts did beside its treatment's others, and what gates said.

        Raises
        ------
        UsageError : no such trial.
        """
        return Why(self.data, trial)

    def only(self, query: str | Sequence[bool] | pd.Series) -> Run:
        """Return the run with some trials only, by a pandas query ("block > 2") or a mask; it explores from then on.

        Raises
        ------
        UsageError : a column that there is not, or no trial left.
        """
        return self._of(chosen.asked(self.trials, query))

    def without(self, *trials: str | Iterable[str]) -> Run:
        """Return the run without these trials, by name or as a list of names; it explores from then on.

        Raises
        ------
        UsageError : no such trial, or none left.
        """
        names = [name for some in trials for name in ([some] if isinstance(some, str) else some)]
        return self._of(chosen.but(self.trials, names, f"in run {self.run}"))

    def _of(self, kept: pd.DataFrame) -> Run:
        return Run(chosen.cut(self.data, kept), self._left_out + len(self.trials) - len(kept))

    def compare(
        self,
        metric: str = "",
        baseline: str = "",
        treatments: str | Sequence[str] = (),
        by: str = "",
        margin: float | None = None,
        level: float = 0.95,
    ) -> Verdicts:
        """Compare treatments by the rules of the reports; without arguments, answer the study's own question.

        Parameters
        ----------
        metric : a name of `run.metrics`, such as "latency p99".
        baseline : the treatment that the others are compared with.
        treatments : which ones; default: all.
        by : a factor, or any column of `run.trials`: each of its values is compared by itself; default: the condition
            that the study judges apart, if it does.
        margin : the smallest difference that matters, 0.02 for 2 %.
        level : of the intervals.

        Raises
        ------
        UsageError : an unknown name; the nearest of the known ones come first.
        DataError : there is no trial, as none could be read.
        """
        some = (treatments,) if isinstance(treatments, str) and treatments else tuple(treatments)
        asked = verdicts.Asked(metric, baseline, some, by, margin, level)
        return verdicts.compare(self.data, asked, self._by_hand())

    def against(self, run: str = PREVIOUS, baseline: str = "", metric: str = "", level: float = 0.95) -> Moves:
        """Compare the effects of this run with those of another run of its study, and say what else changed.

        Parameters
        ----------
        run : the other run's id; by default the run before this one.
        baseline, metric : default: the study's; a metric as in `run.metrics`, "latency p99".
        level : of the intervals.

        Raises
        ------
        UsageError : no such run, or the two hold no two answers to one question.
        """
        return Moves(self.data, run, baseline, metric, level, self._by_hand())

    def zoom(self, metric: str = "") -> Zoomed:
        """Draw every trial in order of execution, to zoom into (with the extra `explore`; else the still figure)."""
        return Zoomed(self.data, metric, self.plot.order(metric))

    def raw(self, trial: str, file: str = "") -> raw.Raw:
        """Show the bytes that a trial's numbers came from: by default what its tool printed.

        Failed attempts have names such as "t0013-attempt1". `file` is one of `.files` of what this returns.

        Raises
        ------
        UsageError : no such trial, or it has no such file.
        """
        return raw.raw(self.data.paths, trial, file)

    def provenance(self) -> Block:
        """Show where the numbers come from: hosts, versions, revision, sha256 of the study."""
        return Page(self.data).provenance()

    def _shown(self) -> Block:
        """Return what the run is, what it holds, and what to ask it."""
        number, page = counted.trial_counts(self.data), Page(self.data)
        scope = [*scope_parts(self.data, self.data.study.margin), *filter(None, [self._by_hand()])]
        arms = [[name, self.data.study.label(name), *self._counts(name)] for name in self.treatments]
        columns = [Column("Treatment"), Column("Label", wrap=True), Column("Trials", True), Column("Count", True)]
        table = Table("Treatments", columns, arms)
        frames = ", ".join(f"{name} ({len(getattr(self, name)):,})" for name in FRAMES)
        facts = [
            ("run", f"{self.run} of {self.study}{self._kept_as()}"),
            ("trials", f"{number['valid']} of {number['planned']} count"), ("frames", frames),
            ("metrics", ", ".join(self.metrics)), ("ask", ASK),
        ]  # fmt: skip
        text = "\n".join([page.question, " · ".join(scope), *(f"{k}: {v}" for k, v in facts), "", table_text(table)])
        return render_block("run.html.j2", text, question=page.question, scope=" · ".join(scope), facts=facts,
                     table=table_markup(table))  # fmt: skip

    def _by_hand(self) -> str:
        out = self._left_out
        return f"{out} of {len(self.trials) + out} trials left out by hand" if out else ""

    def _kept_as(self) -> str:
        folder = self.data.paths.raw.parent.name
        return "" if folder == self.study else f', lb.load("{folder}")'

    def _counts(self, treatment: str) -> list[str]:
        own = self.trials[self.trials["treatment"] == treatment]
        return [str(len(own)), str(int(own["valid"].sum()))]

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise unknown_name_error("attribute", name, dir(self), f"of {type(self).__name__}")


ASK = ".compare(), .against(run), .plot, .wide(), .slowest(), .why(trial), .raw(trial), .only(query), .zoom()"


def load(study: str, run: str = "latest") -> Run:
    """Load a recorded run; tables that are missing or older than what was recorded are made first.

    Parameters
    ----------
    study : one of `lb.studies()`; "example" is the run that comes with loadbook.
    run : its id; "latest" is the newest.

    Raises
    ------
    UsageError : no such study or run; the nearest of the known ones come first.
    """
    home = project_layout()
    must_be_recorded(home, study)
    paths = home.run(study, home.resolve_run(study, run))
    ensure_ingested(paths, lambda said: None)
    return Run(load_run(home, study, paths.raw.name))


def must_be_recorded(home: Layout, study: str) -> None:
    """Raise UsageError that names the recorded studies unless `study` is one of them."""
    known = [*home.studies_with_runs(), *([EXAMPLE_STUDY] if home.runs(EXAMPLE_STUDY) else [])]
    if study in known:
        return
    if study in [path.stem for path in study_files(home.studies)]:
        here = f"recorded: {', '.join(known) or 'none'}"
        raise UsageError(f"study {study!r} has no run yet", f"lb.run({study!r}, execute=True), or try another; {here}")
    raise unknown_name_error("recorded study", study, known, plural="recorded")
