"""Figures of host metrics over time: of one block, of one host's cores, and of all trials over one another.

They show which resources were saturated, whether one of them was the driver's, and which trials differ from others.
"""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from loadbook.core.errors import UsageError, unknown_name_error
from loadbook.core.units import NBSP, join_words, pluralize
from loadbook.report import palette
from loadbook.report.figures import axes, base, tracks
from loadbook.report.figures.time_panels import TimePanels, cut_middle
from loadbook.report.figures.tracks import Hosts, Timeline, Track, TrialSpan, draw_lines, end_of, host_names, start_of
from loadbook.stats.saturation import finest_source_only, hosts_with_traces, link_capacities
from loadbook.store.tables import RunData, measured_windows_s, values_by_trial

LINE_IN, LETTER_IN = 0.17, 0.078  # of names above the panels
FULL_TIME_SHARE = 0.05  # share of the measured time from which on a resource counts as saturated
LINES_SLICES, FEWEST_SLICES = 3000, 20  # time slices: at most in all lines of a panel, at least in each line
MOST_COLOURS = 8  # lines of rates in one window: more cannot be told apart
UNLIKE_SHARE = 0.1  # share of the capacity: a trial whose mean is further from the median of its treatment is marked
LETTERS_ABOVE, NAME_LETTERS = 96, 26  # letters beside one another above a panel, of a name
NAME_RISE_PT = 21.0  # from a panel to the names of windows above its title


def monitored_hosts(run: RunData) -> Hosts:
    """Return alias -> record of a run's hosts: those in run.json, and those that occur only in its host metrics.

    Raises UsageError if the run has no host metrics.
    """
    if run.traces.empty:
        raise UsageError("no monitor recorded anything of this run", "files can be added: loadbook traces")
    return hosts_with_traces(run.traces, run.run_record.hosts)


class _TimelineFigure(base.ReportFigure):
    """Base class: one panel per track (resource) of a timeline; `subject` begins the alternative text."""

    timeline: Timeline
    subject: str

    @abstractmethod
    def _draw_track(self, panel: Axes, track: Track) -> None:
        """Draw the lines of one track."""

    def _draw_panels(self, since: str, begin: float = 0.0, head_in: float = 0.0) -> TimePanels:
        """Return a drawing with a panel per track, over the time from `begin` seconds on."""
        shown = self.timeline.tracks
        drawing = TimePanels(len(shown), (begin, self.timeline.end), since, head_in)
        for panel, track in zip(drawing.panels, shown, strict=False):
            highest = float(track.samples["value"].max()) if len(track.samples) else 0.0
            limit = max(track.capacity or 0.0, highest) or 1.0
            drawing.set_values(panel, limit, is_capacity=bool(track.capacity))
            self._draw_track(panel, track)
            colour = palette.DOUBT_TEXT if self.timeline.full_share(track) else palette.SOFT
            drawing.write_title(panel, track.title, self.timeline.number_text(track), colour)
        return drawing

    def _draw_limit(self, panel: Axes, track: Track, width: float, slices: int | None = None) -> None:
        """Draw the limit of a track, and the samples at which the resource was saturated, `width` points wide."""
        if track.limit is not None:
            panel.axhline(track.limit, color=palette.DOUBT, linewidth=1.1, linestyle=axes.DASHED, zorder=0)
            full = track.full_samples
            if full["value"].notna().any():
                draw_lines(panel, full, self.timeline, palette.DOUBT, width, slices)

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: the numbers of every panel."""
        return f"{self.subject}.", f"{self.timeline.numbers_text}."


class HostMetricsFigure(_TimelineFigure):
    """One panel per resource over the time of one block, each from 0 to the resource's capacity.

    Parameters
    ----------
    traces, trials : the run's tables.
    hosts : the entry "hosts" of run.json: alias of each host -> its roles and CPUs (None: all).
    labels : treatment -> name.
    links : host -> capacity of its network in B/s, if known.
    windows : trial -> length of its measurement window in seconds; default: until the last sample.
    rates : trial -> ok responses per second, drawn in the first panel if known.
    samples : the run's table; with it, rates are drawn over time.
    baseline : the treatment whose line is black and dashed.
    foreign : pairs of trial and host in which other programs used the CPU (rule foreign_cpu).
    block : number of the block; default: the block in the middle of the run.
    """

    subject = "Resource traces of one block"

    def __init__(
        self, traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str],
        links: Mapping[str, float] | None = None, windows: Mapping[str, float] | None = None,
        rates: Mapping[str, float] | None = None, samples: pd.DataFrame | None = None, baseline: str = "",
        foreign: Collection[tuple[str, str]] = (), block: int | None = None,
    ) -> None:  # fmt: skip
        self.labels, self.baseline = labels, baseline
        number, own, spans = tracks.block_samples(traces, trials, windows or {}, block)
        resources = tracks.resource_tracks(own, hosts, links or {})
        rate = tracks.rate_track(spans, rates or {}, samples)
        shown = [rate, *resources] if rate and resources else resources
        self.timeline = Timeline(number, spans, tuple(shown))
        self.blocks = int(trials["block"].nunique())
        own_trials, drivers = {s.trial for s in spans}, {alias for alias in hosts if "driver" in hosts[alias].roles}
        self.driver_is_shared = any(trial in own_trials and host in drivers for trial, host in foreign)
        unmonitored = sorted(set(hosts) - set(traces["host"]))
        self.unmonitored = [host_names(hosts)[alias] for alias in unmonitored]

    @classmethod
    def from_run(cls, run: RunData, block: int | None = None) -> Self:
        """Return the figure of one block of a run; default: the middle block."""
        hosts = monitored_hosts(run)
        labels = run.study.labels
        windows, rates = measured_windows_s(run), values_by_trial(run, "ok_per_s")
        links, baseline = link_capacities(hosts), run.study.baseline
        met = run.problems[(run.problems["name"] == "foreign_cpu") & (run.problems["level"] == "doubt")]
        foreign = set(zip(met["trial"], met["host"], strict=True))
        return cls(run.traces, run.trials, hosts, labels, links, windows, rates, run.samples, baseline, foreign, block)

    @staticmethod
    def has_data(traces: pd.DataFrame) -> bool:
        """Return whether any monitor recorded a metric that this figure shows."""
        return bool(traces["metric"].isin(tracks.DRAWN_METRICS).any())

    def _draw(self) -> base.Drawing:
        key = self._key()
        names, upright = self._names() if self.timeline.tracks and not key else ([], False)
        columns = max(1, LETTERS_ABOVE // max((len(str(line.get_label())) + 5 for line in key), default=1))
        lines = [-(-len(key) // columns), *map(base.line_count, names)]
        head_in = LETTER_IN * max(map(len, names)) if upright else LINE_IN * max(lines)
        since = f"since the start of block {self.timeline.block}; shaded = measured, white = warm-up and reset"
        drawing = self._draw_panels(since, head_in=head_in)
        if not self.timeline.tracks:
            drawing.write_title(drawing.panels[0], "no monitor recorded anything in this block")
        elif key:
            drawing.figure.legend(handles=key, loc="outside upper left", ncols=columns)
        else:
            self._write_names(drawing.panels[0], names, upright)
        return drawing

    def _draw_track(self, panel: Axes, track: Track) -> None:
        windows, full_height = self.timeline.windows, panel.get_xaxis_transform()
        tints = [palette.WINDOW_TINT if any(span.valid for span in window) else palette.DOUBT_BOX for window in windows]
        spans = [(start_of(window), end_of(window) - start_of(window)) for window in windows]
        panel.broken_barh(spans, (0, 1), transform=full_height, facecolors=tints, linewidth=0, zorder=-3)
        starts = sorted({span.start for span in self.timeline.trials})
        panel.vlines(starts, 0, 1, palette.GRID, transform=full_height, linewidth=0.8, zorder=-2)
        if track.mean is not None:
            draw_lines(panel, track.mean, self.timeline, palette.OTHERS, 0.8)
        if not (track.by_trial and self.colours):
            draw_lines(panel, track.samples, self.timeline, palette.INK, 1.0)
        for span in self.timeline.trials if track.by_trial and self.colours else ():
            own, dashes = track.samples[track.samples["trial"] == span.trial], self._dashes(span.treatment)
            draw_lines(panel, own, self.timeline, self.colours[span.treatment], 1.4, dashes=dashes)
        self._draw_limit(panel, track, 2.6)

    def _dashes(self, treatment: str) -> Any:
        return axes.DASHED if treatment == self.baseline else "-"

    @cached_property
    def colours(self) -> dict[str, str]:
        """Treatment -> colour of its line of rates, for treatments that share a measurement window (interleaved).

        It is {} if no treatments share one, no rates are drawn, or the treatments are more than `MOST_COLOURS`.
        """
        shared = {span.treatment for window in self.timeline.windows if len(window) > 1 for span in window}
        if not any(track.by_trial for track in self.timeline.tracks) or len(shared) > MOST_COLOURS:
            return {}
        order = [*(name for name in self.labels if name in shared), *sorted(shared - set(self.labels))]
        return axes.line_colours(order, self.baseline)

    def _key(self) -> list[Line2D]:
        """Return the lines of the treatments of a shared window, labelled with their names; [] for others."""
        counting = {span.treatment for span in self.timeline.trials if span.valid}
        lines = []
        for treatment, colour in self.colours.items() if len(self.timeline.windows) == 1 else ():
            name = cut_middle(base.drawable(self.labels.get(treatment, treatment), treatment), NAME_LETTERS)
            label = name if treatment in counting else f"{name} ✕ not counted"
            lines.append(Line2D([], [], color=colour, linestyle=self._dashes(treatment), label=label))
        return lines

    def _names(self) -> tuple[list[str], bool]:
        """Return the text above each measurement window, and whether they are upright: one line, not up to three."""
        windows = self.timeline.windows
        names = [base.drawable(*self._name(window)) + ("" if _counts(window) else " ✕") for window in windows]
        letters = LETTERS_ABOVE // max(1, len(names)) - 1
        wrapped = [textwrap.wrap(name, max(1, letters), break_long_words=False) for name in names]
        if any(len(lines) > 3 or max(map(len, lines)) > letters for lines in wrapped):
            return [cut_middle(name, NAME_LETTERS) for name in names], True
        return ["\n".join(lines) for lines in wrapped], False

    def _name(self, window: Sequence[TrialSpan]) -> tuple[str, str]:
        """Return the treatment of a window, or how many are measured by turns, and the same without the labels."""
        if len(window) == 1:
            return self.labels.get(window[0].treatment, window[0].treatment), window[0].treatment
        turns = f"{len(window)} treatments by turns"
        left_out = sum(not span.valid for span in window)
        return (f"{turns}, {left_out} not counted" if left_out else turns), turns

    def _write_names(self, panel: Axes, names: list[str], upright: bool) -> None:
        """Write each trial's treatment once, above its measurement window, or beside it if names would touch."""
        windows, end = self.timeline.windows, self.timeline.end
        letters = [2 if upright else max(map(len, name.split("\n"))) + 1 for name in names]
        widths = end * np.array(letters) / max(LETTERS_ABOVE, sum(letters))
        packed = np.cumsum(widths) - widths / 2  # the middles of names that follow one another without room
        middles = np.array([(start_of(window) + end_of(window)) / 2 for window in windows])
        places = np.maximum.accumulate(np.maximum(middles - packed, 0)) + packed
        places = np.minimum(places, end - widths.sum() + packed)
        for name, x, window in zip(names, places, windows, strict=True):
            style: dict[str, Any] = {} if _counts(window) else {"color": palette.DOUBT_TEXT, "weight": "bold"}
            panel.annotate(
                name, (x, 1), (0, NAME_RISE_PT), xycoords=("data", "axes fraction"), textcoords="offset points",
                ha="center", va="bottom", rotation=90 if upright else 0, size=base.SMALL_PT, **style,
            )  # fmt: skip

    @property
    def caption(self) -> str:
        """Sentences on the resources that were saturated during the measured time, and on the driver."""
        shares = self.timeline.full_shares
        if not any(span.valid for span in self.timeline.trials):
            return f"Not known: no trial of block {self.timeline.block} counts."
        if not shares:
            return "Not known: no monitor recorded a resource whose capacity is known in this block."
        driver_shares = [share for track, share in shares if track.is_driver]
        driver = "the driver was not watched"
        if any(share > FULL_TIME_SHARE for share in driver_shares):
            driver = "so the tool, not only the server, may have set the numbers"
            driver += "; other programs used the driver, too (see the doubts)" if self.driver_is_shared else ""
        elif driver_shares:
            moments = max(driver_shares)
            driver = f"the driver had room except in {max(1, round(100 * moments))}{NBSP}% of the time"
            driver = driver if moments else "the driver had room"
        full = _full_resources(shares)
        return f"At its limit: {full}; {driver}." if full else f"Nothing that was watched was full; {driver}."

    @property
    def help(self) -> str:
        """Instructions for reading the figure, and the hosts without a monitor."""
        parts = [
            f"Block {self.timeline.block} of {self.blocks}, all hosts on one clock;",
            "each axis starts at 0 and ends at the capacity where it is known.",
            "Amber: at or above the limit. A gap in a line: no sample was taken.",
        ]
        if any(track.by_slices for track in self.timeline.tracks):
            parts.append("Rates: means of half a second or more, by the bytes received in a treatment's slices.")
        if any(track.mean is not None for track in self.timeline.tracks):
            parts.append("Grey line: mean of the cores.")
        if self.unmonitored:
            parts.append(f"No monitor on: {join_words(self.unmonitored)}.")
        return " ".join(parts)


class CoresFigure(HostMetricsFigure):
    """One panel per core and per process of one host over one block, each from 0 to one whole CPU.

    A panel shows a share of one CPU over the time of the block. A process above one whole CPU stretches its panel.

    Parameters are those of `HostMetricsFigure`, and `host`, the alias of the host.
    """

    subject = "Cores and processes of one host"

    def __init__(
        self, traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str], host: str,
        windows: Mapping[str, float] | None = None, block: int | None = None,
    ) -> None:  # fmt: skip
        self.labels, self.cpus = labels, hosts[host].cpus
        self.host = host_names(hosts)[host]
        number, samples, spans = tracks.block_samples(traces, trials, windows or {}, block)
        cores = tracks.core_tracks(samples, host, self.host, self.cpus)
        processes = tracks.process_tracks(samples, host, self.host)
        self.timeline = Timeline(number, spans, (*cores, *processes))

    @classmethod
    def from_run(cls, run: RunData, block: int | None = None, host: str = "") -> Self:
        """Return the figure of one host in one block of a run; default: the first server, the middle block.

        `host` is an alias; a server is any host that is no driver.
        """
        hosts = monitored_hosts(run)
        monitored = cls.hosts_with_cores(run.traces, hosts)
        if host not in monitored and (host or not monitored):
            raise unknown_name_error("host whose cores were watched", host, monitored, plural="hosts")
        servers = [alias for alias in monitored if "driver" not in hosts[alias].roles]
        labels = run.study.labels
        chosen, windows = host or [*servers, *monitored][0], measured_windows_s(run)
        return cls(run.traces, run.trials, hosts, labels, chosen, windows, block)

    @staticmethod
    def hosts_with_cores(traces: pd.DataFrame, hosts: Hosts) -> list[str]:
        """Return the hosts for which single cores or processes were recorded."""
        single = (traces["metric"] == "cpu_busy") & (traces["item"] != "all")
        monitored = set(traces.loc[single | (traces["metric"] == "process_cpu"), "host"])
        return [alias for alias in hosts if alias in monitored]

    @property
    def caption(self) -> str:
        """Sentences on the cores and processes of the host that were saturated."""
        shares = self.timeline.full_shares
        if full := _full_resources(shares):
            return f"On the {self.host}, full: {full}."
        return f"On the {self.host} no core and no process was full." if shares else f"On the {self.host}: not known."

    @property
    def help(self) -> str:
        """Instructions for reading the figure, and the CPUs and processes that it leaves out."""
        text = f"Block {self.timeline.block}; 100{NBSP}% is one whole CPU; amber: at or above 90{NBSP}%."
        if self.cpus:
            text += f" Only the CPUs that the host is given: {join_words([str(n) for n in self.cpus])}."
        return f"{text} Processes by how much they used, those that hardly ran left out."


class TrialOverlayFigure(_TimelineFigure):
    """One panel per resource with a line for every trial, by the time since its measurement began.

    Parameters as of `HostMetricsFigure`.
    """

    subject = "Resource traces of all trials"

    def __init__(
        self, traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, links: Mapping[str, float] | None = None,
        windows: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        samples = finest_source_only(traces)
        spans = tracks.trial_spans(samples, trials.sort_values("slot"), windows or {})
        first = min(0.0, float(samples["t_s"].min())) if len(samples) else 0.0
        aligned = tuple(replace(span, start=first, opens=0.0) for span in spans)  # 0: start of measurement
        self.timeline = Timeline(0, aligned, tuple(tracks.resource_tracks(samples, hosts, links or {})))

    @classmethod
    def from_run(cls, run: RunData, treatment: str = "") -> Self:
        """Return the figure of all trials of a run, or of those of one treatment ("": all)."""
        hosts, trials = monitored_hosts(run), run.trials
        if treatment:
            trials = trials[trials["treatment"] == treatment]
            if trials.empty:
                raise unknown_name_error("treatment", treatment, run.plan.treatments)
        traces = run.traces[run.traces["trial"].isin(list(trials["trial"]))]
        return cls(traces, trials, hosts, link_capacities(hosts), measured_windows_s(run))

    @cached_property
    def unlike_trials(self) -> dict[str, set[str]]:
        """Title of a track -> the trials whose mean is far from the median of their treatment.

        "Far" is more than 10 % of the capacity; there are none if the capacity is not known.
        """
        treatments, unlike = pd.Series({s.trial: s.treatment for s in self.timeline.trials}), {}
        for track in self.timeline.tracks:
            means = self.timeline.measured(track, self.timeline.trials).groupby("trial")["value"].mean()
            distances = (means - means.groupby(treatments).transform("median")).abs()
            unlike[track.title] = set(means.index[distances > UNLIKE_SHARE * (track.capacity or np.inf)])
        return unlike

    def _draw(self) -> base.Drawing:
        begin = min(span.start for span in self.timeline.trials)
        return self._draw_panels("since the measurement began; shaded = measured", begin)

    def _draw_track(self, panel: Axes, track: Track) -> None:
        slices = max(FEWEST_SLICES, LINES_SLICES // len(self.timeline.trials))
        longest = max(self.timeline.trials, key=lambda span: span.window)
        panel.axvspan(0, longest.window, color=palette.WINDOW_TINT, linewidth=0, zorder=-3)
        draw_lines(panel, track.samples, self.timeline, palette.OTHERS, 0.7, slices)
        self._draw_limit(panel, track, 1.2, slices)
        unlike = track.samples[track.samples["trial"].isin(self.unlike_trials[track.title])]
        draw_lines(panel, unlike, self.timeline, palette.INK, 1.3, slices)

    @property
    def caption(self) -> str:
        """One sentence on how many trials differ from the others of their treatment."""
        unlike = len(set().union(*self.unlike_trials.values()))
        trials = pluralize(len(self.timeline.trials), "trial")
        if not unlike:
            return f"No trial of {trials} is unlike the others of its treatment."
        return f"{unlike} of {trials} {'is' if unlike == 1 else 'are'} unlike the others of their treatment."

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        return (
            "Grey: one line per trial; amber: at or above the limit; ink: its mean lies more than "
            f"10{NBSP}% of the capacity from the median of its treatment’s trials."
        )


def _full_resources(shares: list[tuple[Track, float]]) -> str:
    full = [(track, share) for track, share in shares if share > FULL_TIME_SHARE]
    return join_words([f"{track.noun} ({round(100 * share)}{NBSP}% of the measured time)" for track, share in full])


def _counts(window: Sequence[TrialSpan]) -> bool:
    return all(span.valid for span in window)
