"""A recorded run for notebooks: an object with its tables, comparisons, figures and raw files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.analyses.compare_runs.page import PREVIOUS
from loadbook.core.errors import DataError, UsageError, unknown_name_error
from loadbook.core.units import format_bytes, format_percent
from loadbook.notebook import compare as comparisons
from loadbook.notebook.compare import Displayable
from loadbook.notebook.plots import Plots, ZoomView
from loadbook.report import sections
from loadbook.report.blocks import Block, lines_list, note
from loadbook.report.build import ensure_ingested
from loadbook.report.nodes import Column, Definitions, Details, HtmlOnly, Paragraph, Preformatted, Strong, Table
from loadbook.report.page import Page, scope_parts
from loadbook.stats import saturation
from loadbook.stats.diagnostics import host_resources, peer_comparison, resource_use
from loadbook.store import trial_record
from loadbook.store.paths import EXAMPLES, Layout, RunPaths, project_layout
from loadbook.store.tables import RunData, load_run, measured_windows_s
from loadbook.study.reader import study_files

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.notebook.compare import EffectChanges, Verdicts

METHODS = ("compare()", "against(run)", "plot", "wide()", "resources()", "slowest()", "why(trial)", "raw(trial)")
METHODS_HELP = ", ".join(f".{method}" for method in (*METHODS, "only(query)", "zoom()"))
MAX_BYTES, MAX_LINES = 20_000, 200
HOSTS_ALIKE = "Its hosts did what they do in its treatment’s other trials."
HOSTS_UNKNOWN = "Too little was recorded of its hosts to compare them with its treatment’s other trials."


def _host_resources(data: RunData) -> pd.DataFrame:
    """Return the resource use over time of every host of a run (`stats.diagnostics.host_resources`)."""
    return host_resources(data.traces, saturation.hosts_with_traces(data.traces, data.run_record.hosts))


class TrialExplanation(Displayable):
    """How one trial differs from the others of its treatment; `frame` is a table of the host metrics compared.

    A row of `frame` is a host and resource. `here` is its mean in this trial, `usual` the median of the others'
    means. `apart` is the signed distance as a multiple of `spread` (of the others), NaN if it is small.
    """

    def __init__(self, data: RunData, trial: str) -> None:
        comparisons.check_trials(data, [trial])
        self.trial, self._data = trial, data
        self.frame = peer_comparison(_host_resources(data), data.trials, trial, measured_windows_s(data))

    @property
    def sentences(self) -> list[str]:
        """Texts on the problems of the trial, then on host metrics that differ from the treatment's other trials."""
        from loadbook.analyses.resources import peer_value_text

        own = self._data.problems[self._data.problems["trial"] == self.trial]
        problems = [f"{row.level}{f' ({row.host})' if isinstance(row.host, str) else ''}: {row.message}"
                    for row in sections.row_tuples(own)]  # fmt: skip
        hosts = [
            f"{row.host}: {row.resource} {peer_value_text(row, row.here)}, usually {peer_value_text(row, row.usual)}"
            for row in sections.row_tuples(self.frame[self.frame["apart"].notna()])
        ]
        return [*problems, *(hosts or [HOSTS_ALIKE if len(self.frame) else HOSTS_UNKNOWN])]

    def _block(self) -> Block:
        """Return the trial's deviation from the median of its treatment, and the sentences."""
        own: Any = comparisons.slowest_trials(self._data).set_index("trial").loc[self.trial]
        away, metric = own["away"], self._data.study.metric
        far = f"{format_percent(away)} from the median of {own['treatment']}" if away == away else "no value"
        head = f"{self.trial}: {own['treatment']}, block {own['block']}, {own['status']}; {metric}: {far}"
        return Block(Paragraph(Strong(head)), lines_list(self.sentences))


@dataclass(frozen=True, repr=False)
class Raw(Displayable):
    """One file of a trial.

    Attributes
    ----------
    record : the trial's record (`store.trial_record.TrialRecord`): argv, clocks, phases, sha256 of every file.
    folder : the trial's folder.
    file : the name of the file in it.
    """

    record: trial_record.TrialRecord
    folder: Path
    file: str

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.folder / self.file

    @property
    def files(self) -> list[str]:
        """Names of all files of the trial; `run.raw(trial, file)` shows one."""
        return list(self.record.files)

    @property
    def bytes(self) -> bytes:
        """The whole content, as copied from the host."""
        return self.path.read_bytes()

    @property
    def text(self) -> str:
        """The whole content as text; invalid UTF-8 bytes are replaced."""
        return self.bytes.decode("utf-8", "replace")

    @cached_property
    def sha256(self) -> str:
        """The current sha256 (hex) of the file; "" if the file does not exist any more."""
        return trial_record.sha256_file(self.path) if self.path.is_file() else ""

    @property
    def unchanged(self) -> bool:
        """Whether the file still has the recorded sha256; False also if it does not exist any more."""
        return self.sha256 == self.record.files[self.file].sha256

    def _block(self) -> Block:
        """Return name, sha256, command and content of a file, and the names of the other files."""
        kept = self.record.files[self.file]
        # the drivers whose tool wrote this file
        drivers = [d for d in self.record.drivers if self.file in (d.stdout, d.stderr, *d.files.values())]
        state = "as recorded" if self.unchanged else "NOT as recorded" if self.sha256 else "gone"
        where = f"{self.record.trial} ({self.record.treatment}, block {self.record.block}, {self.record.status})"
        facts = [
            ("file", f"{self.file}, {format_bytes(kept.size)}"),
            ("of", where),
            *(("command", f"{' '.join(d.argv)}  (on {d.host}, exit code {d.rc})") for d in drivers),
            ("path", str(self.path)),
            ("sha256", f"{self.sha256 or kept.sha256}, {state}"),
        ]
        text, cut = self._start()
        rows = [[name, f"{f.size:,}", f"{f.sha256[:16]}…"] for name, f in self.record.files.items()]
        others = Table("Files", [Column("File"), Column("Bytes", True), Column("sha256")], rows)
        return Block(
            Definitions(facts),
            Preformatted(text) if text else None,
            note(cut) if cut else None,
            HtmlOnly(Details(f"All {len(others.rows)} files of this trial", others)),
        )

    def _start(self) -> tuple[str, str]:
        """Return the beginning of the content, and a note on the rest or that the file is missing."""
        if not self.sha256:
            return "", "The file is gone: loadbook verify says what else is."
        with self.path.open("rb") as handle:
            data = handle.read(MAX_BYTES)
        lines = data.decode("utf-8", "replace").split("\n")
        whole = self.path.stat().st_size
        if whole <= MAX_BYTES and len(lines) <= MAX_LINES:
            return ("\n".join(lines), "") if whole else ("", "The file is empty.")
        return "\n".join(lines[:MAX_LINES]), f"The beginning of {format_bytes(whole)}; .text has all of it."


def read_raw(paths: RunPaths, trial: str, file: str = "") -> Raw:
    """Return a file of a trial; by default the output of the tool on its first driver.

    Raises UsageError for an unknown trial or file; it lists the most similar names first.
    """
    folders = {p.parent.name: p.parent for part in (paths.trials, paths.failed) for p in part.glob("*/trial.json")}
    if trial not in folders:
        raise unknown_name_error("trial", trial, sorted(folders), f"in run {paths.raw.name}")
    folder = folders[trial]
    record = trial_record.read_trial(folder)
    printed = [name for driver in record.drivers for name in (driver.stdout, *driver.files.values())]
    names = [name for name in printed if name in record.files] or list(record.files)
    if (file and file not in record.files) or not names:
        raise unknown_name_error("file", file, record.files, f"of trial {trial}")
    file = file or names[0]
    if not (folder / file).resolve().is_relative_to(folder.resolve()):
        message = f"{folder / trial_record.RECORD_NAME} names a file outside of its folder: {file}"
        raise DataError(message, "loadbook verify")
    return Raw(record, folder, file)


class Run(Displayable):
    """A recorded run of a study.

    Attributes
    ----------
    study, run : name of the study and id of the run.
    trials, measurements, samples, traces, problems : pandas DataFrames; docs/data-format.md lists every column.
    plot : the figures of the reports, such as `run.plot.order()`.
    data : all tables and records of the run (`store.tables.RunData`), with plan, host facts and paths.

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
        """One row per trial: treatment, block, status, valid, `gates`, and the level of each factor.

        `gates` lists the validity rules that found the trial invalid or raised a doubt.
        """
        return self.data.trials

    @property
    def measurements(self) -> pd.DataFrame:
        """Measurements of the load generator: a row per trial, driver, metric and statistic, in base units.

        Rows with the driver "*" are about all drivers together. Base units are s, bytes and 1/s.
        """
        return self.data.measurements

    @property
    def samples(self) -> pd.DataFrame:
        """Series within trials: rates by second, bins of histograms, slices of interleaved trials.

        A row is one point of a `series`: `x` (its unit is `x_unit`), `metric` and `value`. Trials without a series
        have no rows.
        """
        return self.data.samples

    @property
    def traces(self) -> pd.DataFrame:
        """Host metrics: a row per trial, host, time (s since the measurement began), metric and device or process.

        The trials of an interleaved block have the same host, at the same time: `resources` has one row for them.
        """
        return self.data.traces

    @property
    def problems(self) -> pd.DataFrame:
        """Findings of validity rules, and unreadable items of raw files, with trial, host, file and line.

        `level` is "invalid", "doubt", "note" or "unchecked"; `trial` is null if the row is about the whole run.
        """
        return self.data.problems

    @cached_property
    def plot(self) -> Plots:
        """The figures of the reports as methods, which the Tab key lists after ``run.plot.``."""
        return Plots(self.data)

    @property
    def treatments(self) -> list[str]:
        """Names of the treatments, the baseline first."""
        return list(self.data.plan.treatments)

    @property
    def metrics(self) -> list[str]:
        """Names of the measured metrics, as arguments of `compare` and `wide`: "ok_per_s", "latency p99"."""
        return list(comparisons.available_metrics(self.data))

    def wide(self, *metrics: str) -> pd.DataFrame:
        """Return the trials in order of execution, with a column per metric (default: the study's), in base units.

        Names are those of `run.metrics`, base units s, bytes and 1/s; a trial without a value has NaN. Raises
        UsageError for a metric that was not measured; it lists the most similar names first.
        """
        return comparisons.trials_table(self.data, metrics or (self.data.study.metric,))

    def resources(self) -> pd.DataFrame:
        """Return what the hosts used while measuring: CPUs, memory and sockets, a row per trial, host and resource.

        Columns: block, trial, treatment, host, resource, unit, mean, max. Mean and max are those of the samples of
        the measurement; CPUs are the number of busy CPUs (unit 1). Merge it to `wide` by trial, treatment and block.
        The treatments of an interleaved block are up at once, so it has one row for all of them, without trial and
        treatment: merge by block. The CPU time of each treatment is then the metric "cpu_per_response".
        """
        return resource_use(_host_resources(self.data), self.data.trials, measured_windows_s(self.data))

    def slowest(self, number: int = 5, metric: str = "") -> pd.DataFrame:
        """Return the `number` trials that are worst compared with the median of their treatment, the worst first.

        `away` is the ratio to that median minus 1; `metric` is the study's by default. Invalid trials are included,
        and no statistical test is made.
        """
        if not isinstance(number, int):
            raise UsageError(f"how many comes first, not {number!r}", 'run.slowest(5, "latency p99")')
        return comparisons.slowest_trials(self.data, metric).head(number)

    def why(self, trial: str) -> TrialExplanation:
        """Show how one trial differs from the others of its treatment: its problems, and its host metrics.

        Raises UsageError for an unknown trial.
        """
        return TrialExplanation(self.data, trial)

    def only(self, query: str | Sequence[bool] | pd.Series) -> Run:
        """Return the run with the trials of a pandas query ("block > 2") or mask; its results are exploratory.

        A mask has a truth value for each row of `run.trials`. Raises UsageError for an invalid query or mask, or if
        no trial is left.
        """
        return self._restricted(comparisons.select_trials(self.trials, query))

    def without(self, *trials: str | Iterable[str]) -> Run:
        """Return the run without these trials, given as names or a list of names; its results are exploratory.

        Raises UsageError for an unknown trial, or if no trial is left.
        """
        names = [name for some in trials for name in ([some] if isinstance(some, str) else some)]
        comparisons.check_trials(self.data, names)
        return self._restricted(self.trials[~self.trials["trial"].isin(names)])

    def _restricted(self, kept: pd.DataFrame) -> Run:
        left_out = self._left_out + len(self.trials) - len(kept)
        return Run(comparisons.restrict_to_trials(self.data, kept), left_out)

    def compare(
        self, metric: str = "", baseline: str = "", treatments: str | Sequence[str] = (), by: str = "",
        margin: float | None = None, level: float = 0.95,
    ) -> Verdicts:  # fmt: skip
        """Compare treatments by the rules of the reports; without arguments, answer the study's own question.

        Parameters
        ----------
        metric : a name of `run.metrics`, such as "latency p99"; default: the study's.
        baseline : the treatment that the others are compared with; default: the study's.
        treatments : treatments to compare; default: all.
        by : a factor or another column of `run.trials`; treatments are then compared separately for each of its
            values. Default: the condition for which the study declares separate analyses, if any.
        margin : the smallest difference that matters, 0.02 for 2 %; default: the study's.
        level : confidence level of the intervals.

        Raises
        ------
        UsageError : an unknown name (the message lists the most similar names first), or a margin not in 0 to 1.
        DataError : the run has no trial that could be read.
        """
        some = (treatments,) if isinstance(treatments, str) and treatments else tuple(treatments)
        asked = comparisons.ComparisonRequest(metric, baseline, some, by, margin, level)
        return comparisons.compare(self.data, asked, self._selection_note())

    def against(self, run: str = PREVIOUS, baseline: str = "", metric: str = "", level: float = 0.95) -> EffectChanges:
        """Compare the effects in this run with those in another run of its study, and list conditions that changed.

        Parameters
        ----------
        run : the other run's id; by default the run before this one.
        baseline, metric : default: the study's; a metric has a name as in `run.metrics`, "latency p99".
        level : confidence level of the intervals.

        Raises
        ------
        UsageError : the run does not exist, or the two runs have no comparison in common.
        """
        return comparisons.EffectChanges(self.data, run, baseline, metric, level, self._selection_note())

    def zoom(self, metric: str = "") -> ZoomView:
        """Draw every trial in order of execution, with zoom (a static figure without the extra `explore`)."""
        return ZoomView(self.data, metric, self.plot.order(metric))

    def raw(self, trial: str, file: str = "") -> Raw:
        """Show a raw file of a trial: by default the output of its load generator.

        Failed attempts have names such as "t0013-attempt1". `run.raw(trial).files` lists the files of a trial.

        UsageError: no such trial, or it has no such file.
        """
        return read_raw(self.data.paths, trial, file)

    def provenance(self) -> Block:
        """Show how the numbers were made: hosts, versions of software, git revision, sha256 of the study."""
        return Page(self.data).provenance()

    def _block(self) -> Block:
        """Return a description of the run, its contents and its methods."""
        number, page, folder = sections.trial_counts(self.data), Page(self.data), self.data.paths.raw.parent.name
        scope = [*scope_parts(self.data, self.data.study.margin), *filter(None, [self._selection_note()])]
        arms = [[name, self.data.study.label(name), *self._counts(name)] for name in self.treatments]
        columns = [Column("Treatment"), Column("Label", wrap=True), Column("Trials", True), Column("Count", True)]
        table = Table("Treatments", columns, arms)
        tables = {"trials": self.trials, "measurements": self.measurements, "samples": self.samples,
                  "traces": self.traces, "problems": self.problems}  # fmt: skip
        frames = ", ".join(f"{name} ({len(table):,})" for name, table in tables.items())
        facts = [
            ("run", f"{self.run} of {self.study}" + ("" if folder == self.study else f', lb.load("{folder}")')),
            ("trials", f"{number['valid']} of {number['planned']} count"), ("frames", frames),
            ("metrics", ", ".join(self.metrics)), ("ask", METHODS_HELP),
        ]  # fmt: skip
        scope_line = Paragraph(" · ".join(scope), css="scope")
        return Block(Paragraph(Strong(page.question)), scope_line, Definitions(facts), table)

    def _selection_note(self) -> str:
        out = self._left_out
        return f"{out} of {len(self.trials) + out} trials left out by hand" if out else ""

    def _counts(self, treatment: str) -> list[str]:
        own = self.trials[self.trials["treatment"] == treatment]
        return [str(len(own)), str(int(own["valid"].sum()))]

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise unknown_name_error("attribute", name, dir(self), f"of {type(self).__name__}")


def load(study: str, run: str = "latest") -> Run:
    """Load a recorded run; tables that are missing or older than the raw files are made first.

    Parameters
    ----------
    study : name of one of `lb.studies()`; "example" is the run that comes with loadbook.
    run : id of the run; "latest" is the newest.

    Raises
    ------
    UsageError : an unknown study or run; the message lists the most similar names first.
    """
    layout = project_layout()
    check_study_recorded(layout, study)
    paths = layout.run(study, layout.resolve_run(study, run))
    ensure_ingested(paths, lambda text: None)
    return Run(load_run(layout, study, paths.raw.name))


def recorded_studies(layout: Layout) -> list[str]:
    """Return the names of all studies that have a run, the examples last."""
    return [*layout.studies_with_runs(), *(name for name in EXAMPLES if layout.runs(name))]


def check_study_recorded(layout: Layout, study: str) -> None:
    """Raise UsageError, which lists the studies with a run, unless `study` is one of them."""
    known = recorded_studies(layout)
    if study in known:
        return
    if study in [path.stem for path in study_files(layout.studies)]:
        hint = f"lb.run({study!r}, execute=True), or try another; recorded: {', '.join(known) or 'none'}"
        raise UsageError(f"study {study!r} has no run yet", hint)
    raise unknown_name_error("recorded study", study, known, plural="recorded")
