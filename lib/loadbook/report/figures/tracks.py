"""Host metrics of several trials on one time axis, by resource ("track"), and when each resource was saturated.

Each trial has its own line: interrupted where samples are missing, and simplified if many trials overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.core.errors import unknown_name_error
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP
from loadbook.modes.base import mode_called
from loadbook.report.figures.axes import axis_unit
from loadbook.report.figures.base import drawable
from loadbook.stats.carry_over import slices_of_trials
from loadbook.stats.saturation import FULL_SHARE, finest_source_only
from loadbook.stats.steady_state import rate_series
from loadbook.store.run_record import RecordedHost

ROLE_ORDER = ("driver", "balancer", "lb", "proxy", "web", "backend", "db")
DRAWN_METRICS = ("cpu_busy", "memory_used", "net_tx", "sockets_tcp_tw")
MOST_TRACKS, MOST_CORES, MOST_PROCESSES = 8, 8, 6
RATE_STEP_S, SLICES_PER_RATE = 0.5, 3  # a point of a line of rates: at least so long, and so many slices
IDLE_PERCENT = 0.5  # percent of one CPU; processes that never used more are left out
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
LARGE_B = 8 * 1024**3  # installed memory from which on GiB are used instead of MiB
Hosts = Mapping[str, RecordedHost]


@dataclass(frozen=True)
class TrialSpan:
    """One trial on the time axis: start of the trial, start and length of its measurement window, in seconds.

    The latter two are `opens` and `window`. `shares_window`: the trial was interleaved, so others have the same
    window.
    """

    trial: str
    treatment: str
    valid: bool
    start: float
    opens: float
    window: float
    shares_window: bool = False


@dataclass(frozen=True)
class Track:
    """One resource: samples (columns trial, t_s, value) in the unit of the panel, and its capacity.

    `t_s` is in seconds since the measurement began. `name` and `unit` are its heading, `noun` names it in a sentence,
    `suffix` follows a number. `mean` has samples of the mean over cores, if there are several. `by_trial`: trials
    that share a window have different samples (rates), so a line each. `by_slices`: rates are those of slices.
    """

    name: str
    unit: str
    noun: str
    is_driver: bool
    samples: pd.DataFrame
    capacity: float | None = None
    suffix: str = ""
    mean: pd.DataFrame | None = None
    by_trial: bool = False
    by_slices: bool = False

    @property
    def title(self) -> str:
        """The heading of its panel: name and unit."""
        return f"{self.name}, {self.unit}" if self.unit else self.name

    @property
    def limit(self) -> float | None:
        """The value from which on the resource counts as saturated (90 % of capacity); None if that is unknown."""
        return None if self.capacity is None else FULL_SHARE * self.capacity

    @property
    def full_samples(self) -> pd.DataFrame:
        """Return the samples at which the resource was at its limit, with NaN in place of the others."""
        return self.samples.assign(value=self.samples["value"].where(self.samples["value"] >= (self.limit or np.inf)))


@dataclass(frozen=True)
class Timeline:
    """The trials and tracks (resources) of one block, or of a whole run.

    `block` is the number of the block, 0 for a whole run.
    """

    block: int
    trials: tuple[TrialSpan, ...]
    tracks: tuple[Track, ...]

    @cached_property
    def windows(self) -> list[tuple[TrialSpan, ...]]:
        """Return the trials by measurement window; the trials of an interleaved block share one."""
        together = tuple(span for span in self.trials if span.shares_window)
        alone = [(span,) for span in self.trials if not span.shares_window]
        return sorted([*alone, together] if together else alone, key=start_of)

    @cached_property
    def end(self) -> float:
        """End of the time axis: seconds from the start of the first trial to the last sample or end of a window."""
        opens = {t.trial: t.opens for t in self.trials}
        last = [float((k.samples["t_s"] + k.samples["trial"].map(opens).astype(float)).max()) for k in self.tracks]
        return max([1.0, *(t.opens + t.window for t in self.trials), *(s for s in last if np.isfinite(s))])

    def measured(self, track: Track, trials: Sequence[TrialSpan]) -> pd.DataFrame:
        """Return a track's samples that lie within the measurement windows of these trials."""
        ends = track.samples["trial"].map({t.trial: t.window for t in trials}).astype(float)
        return track.samples[(track.samples["t_s"] >= 0) & (track.samples["t_s"] <= ends)]

    def _counted_values(self, track: Track) -> pd.Series:
        return self.measured(track, [t for t in self.trials if t.valid])["value"]

    def full_share(self, track: Track) -> float | None:
        """Return the share (0 to 1) of measured samples of valid trials at which the resource was saturated.

        None if its capacity is unknown, or there are no such samples.
        """
        values = self._counted_values(track)
        return None if track.limit is None or values.empty else float((values >= track.limit).mean())

    @cached_property
    def full_shares(self) -> list[tuple[Track, float]]:
        """The tracks with known capacity, each with the share of the measured time at which it was saturated."""
        return [(track, share) for track in self.tracks if (share := self.full_share(track)) is not None]

    def number_text(self, track: Track) -> str:
        """Return the text beside a panel's title: share of time at which it was saturated, or its highest value."""
        values, share = self._counted_values(track), self.full_share(track)
        if values.empty:
            why = "" if any(t.valid for t in self.trials) else ": no trial counts"
            return "not measured" + (why if len(track.samples) else ": no monitor")
        highest = float(values.max())
        if share is None:
            return f"at most {f'{highest:,.0f}' if highest >= 100 else f'{highest:.3g}'}{track.suffix}"
        if share:
            return f"at or above {track.limit:,.0f} in {max(1, round(100 * share))}{NBSP}% of the measured time"
        if track.unit == "%":
            return f"never at {track.limit:,.0f} (at most {highest:,.0f})"
        capacity = track.capacity or 1
        capacity_text = f"{capacity:,.0f}" if capacity >= 1000 else f"{capacity:.4g}"
        return f"at most {100 * highest / capacity:.0f}{NBSP}% of {capacity_text}"

    @property
    def numbers_text(self) -> str:
        """The texts beside all panels' titles, for the alternative text."""
        headings = [(track.name if track.unit == "%" else track.title, track) for track in self.tracks]
        return "; ".join(f"{heading}: {self.number_text(track)}" for heading, track in headings)


def start_of(window: Sequence[TrialSpan]) -> float:
    """Return the start of the measurement window of one trial, or of trials that share it, in seconds."""
    return min(span.opens for span in window)


def end_of(window: Sequence[TrialSpan]) -> float:
    """Return the end of the measurement window of one trial, or of trials that share it, in seconds."""
    return max(span.opens + span.window for span in window)


def median_block(trials: pd.DataFrame) -> int:
    """Return the number of the block in the middle of the run."""
    blocks = sorted({int(b) for b in trials["block"]})
    return blocks[(len(blocks) - 1) // 2] if blocks else 1


def block_samples(
    traces: pd.DataFrame, trials: pd.DataFrame, windows: Mapping[str, float], block: int | None
) -> tuple[int, pd.DataFrame, tuple[TrialSpan, ...]]:
    """Return the number of a block (None: the middle one), its samples and its trials.

    Of samples that several sources recorded, only those of the most detailed source are kept. `windows` maps a trial
    to the length of its measurement window in seconds. Raises UsageError for a block that is not in `trials`.
    """
    number = median_block(trials) if block is None else block
    if number not in (blocks := sorted({int(b) for b in trials["block"]})):
        raise unknown_name_error("block", number, map(str, blocks))
    chosen = trials[trials["block"] == number].sort_values("slot")
    samples = finest_source_only(traces[traces["trial"].isin(list(chosen["trial"]))])
    return number, samples, trial_spans(samples, chosen, windows)


def trial_spans(samples: pd.DataFrame, trials: pd.DataFrame, windows: Mapping[str, float]) -> tuple[TrialSpan, ...]:
    """Place trials on one time axis; a trial's first sample is taken to be at its start (`started` of the table).

    A trial without `started` follows the one before. `windows` maps a trial to the length of its measurement window
    in seconds; the window of another trial ends with its last sample.
    """
    firsts, lasts = (samples.groupby("trial")["t_s"].agg(f) for f in ("min", "max"))
    begin, spans, previous_end = float(trials["started"].min()), list[TrialSpan](), 0.0
    columns = (trials[c] for c in ("trial", "treatment", "valid", "started", "execution"))
    for trial, treatment, valid, started, execution in zip(*columns, strict=True):
        start = float(started) - begin if np.isfinite(started) else previous_end
        window = float(windows.get(trial, max(0.0, float(lasts.get(trial, 0.0)))))
        opens = start - min(0.0, float(firsts.get(trial, 0.0)))
        at_once = mode_called(execution).shares_hosts
        spans.append(TrialSpan(str(trial), str(treatment), bool(valid), start, opens, window, at_once))
        previous_end = opens + window
    return tuple(spans)


def host_names(hosts: Hosts) -> dict[str, str]:
    """Return alias -> display name: the roles of the host, never its address; "second driver" if several have them."""
    roles, names = {alias: "/".join(host.roles) or alias for alias, host in hosts.items()}, {}
    for alias, own in roles.items():
        group = [other for other, shared in roles.items() if shared == own]
        place = group.index(alias)
        number = f"{place + 1}th " if place >= len(ORDINALS) else f"{ORDINALS[place]} "
        names[alias] = drawable(number + own if len(group) > 1 else own, alias)
    return names


def resource_tracks(samples: pd.DataFrame, hosts: Hosts, links: Mapping[str, float]) -> list[Track]:
    """Return the tracks: CPU of the hosts in the order in which a request passes them, then other server resources.

    `links` maps hosts to the capacity of their network in B/s. There are at most `MOST_TRACKS` tracks.
    """
    ranks = {role: rank for rank, role in enumerate(ROLE_ORDER)}
    roles, names = {alias: host.roles for alias, host in hosts.items()}, host_names(hosts)
    order = sorted(hosts, key=lambda alias: min((ranks.get(r, len(ranks)) for r in roles[alias]), default=len(ranks)))
    servers = [alias for alias in order if "driver" not in roles[alias]]
    tracks: list[Track | None] = [_cpu_track(samples, alias, names[alias], hosts[alias]) for alias in order]
    tracks += [_network_track(samples, alias, names[alias], links.get(alias)) for alias in servers]
    tracks += [_memory_track(samples, alias, names[alias]) for alias in servers]
    sockets = ("sockets_tcp_tw", "sockets in TIME-WAIT", "", "sockets")
    tracks += [_server_track(samples, alias, names[alias], *sockets) for alias in servers]
    return [track for track in tracks if track is not None][:MOST_TRACKS]


def rate_track(
    spans: Sequence[TrialSpan], rates: Mapping[str, float], samples: pd.DataFrame | None = None
) -> Track | None:
    """Return a track with each trial's rate over its measurement window; None if no rates.

    It is the rate of each second where the tool prints that, in an interleaved block the rate of each half second
    (`slice_rates`), else the trial's mean. `rates` maps trials to their mean rate (1/s); others are left out.
    `samples`: the run's table of that name.
    """
    own = None if samples is None else samples[samples["trial"].isin([span.trial for span in spans])]
    by_second = {} if own is None else rate_series(own)
    by_slices = {} if own is None else slice_rates(own, rates)
    rows = list[tuple[str, float, float]]()
    for span in (span for span in spans if span.trial in rates):
        mean = [(0.0, rates[span.trial]), (span.window, rates[span.trial])]
        series = by_second.get(span.trial)
        seconds = (
            [(series.first_s + (k + 0.5) * series.interval_s, v) for k, v in enumerate(series.values)] if series else []
        )
        rows += [(span.trial, at, value) for at, value in by_slices.get(span.trial) or seconds or mean]
    if not rows:
        return None
    drawn = pd.DataFrame(rows, columns=["trial", "t_s", "value"])
    unit = axis_unit(get_metric("ok_per_s"), float(drawn["value"].max()))
    counted = "responses" if by_second else "ok responses"
    drawn["value"] /= unit.divisor
    return Track(
        f"{counted} per second", unit.name, "the answered rate", False, drawn, by_trial=True, by_slices=bool(by_slices)
    )


def slice_rates(samples: pd.DataFrame, rates: Mapping[str, float]) -> dict[str, list[tuple[float, float]]]:
    """Return trial -> (seconds since its first slice, rate per second), one for each half second or every few slices.

    A rate is proportional to the bytes that were received in the slices; their mean is the trial's rate in `rates`.
    """
    found = dict[str, list[tuple[float, float]]]()
    slices = slices_of_trials(samples)
    for trial, every in slices.groupby("trial"):
        own = every.iloc[1:-1]  # the first and the last slice begin or end with the load
        received = own["received_per_s"] * own["slice"]
        if str(trial) not in rates or not received.sum() > 0:
            continue
        since = own["x"] - every["x"].min()
        step = max(RATE_STEP_S, SLICES_PER_RATE * float(since.diff().median()))
        sums = pd.DataFrame({"received": received, "s": own["slice"]}).groupby((since // step).to_numpy(float)).sum()
        sums = sums[sums["s"] > sums["s"].median() / 2]
        scaled = rates[str(trial)] * sums["received"] / sums["s"] * (own["slice"].sum() / received.sum())
        found[str(trial)] = list(zip((scaled.index.to_numpy(float) + 0.5) * step, scaled.tolist(), strict=True))
    return found


def _samples_of(samples: pd.DataFrame, host: str, metric: str) -> pd.DataFrame:
    return samples[(samples["host"] == host) & (samples["metric"] == metric)]


def _core_samples(samples: pd.DataFrame, host: str, allowed: Sequence[int] | None) -> tuple[pd.DataFrame, int]:
    """Return the samples of the cores that a host may use (`allowed`; None: all), and the number of these cores."""
    cores = _samples_of(samples, host, "cpu_busy")
    items = {f"cpu{n}" for n in allowed} if allowed else set(cores["item"]) - {"all"}
    return cores[cores["item"].isin(list(items))], len(items)


def _cpu_track(samples: pd.DataFrame, alias: str, name: str, host: RecordedHost) -> Track:
    """Return the track of the busiest core that the host may use, with the mean over cores; empty if unmonitored."""
    cores, number = _core_samples(samples, alias, host.cpus)
    by_time = cores.assign(value=100 * cores["value"]).groupby(["trial", "t_s"])["value"]
    core = "busiest core" if number > 1 else "core"
    mean = by_time.mean().reset_index() if number > 1 else None
    is_driver = "driver" in host.roles
    busiest = by_time.max().reset_index()
    return Track(f"{name}: {core}", "%", f"the {name}’s {core}", is_driver, busiest, 100.0, mean=mean)


def _server_track(
    samples: pd.DataFrame, alias: str, name: str, metric: str, title: str, unit: str, noun: str,
    factor: float = 1.0, capacity: float | None = None, suffix: str = "",
) -> Track | None:  # fmt: skip
    """Return the track of a host metric summed over devices or processes, times `factor`; None if not recorded."""
    own = _samples_of(samples, alias, metric)
    if own.empty:
        return None
    summed = own.assign(value=own["value"] * factor).groupby(["trial", "t_s"])["value"].sum().reset_index()
    return Track(f"{name}: {title}", unit, f"the {name}’s {noun}", False, summed, capacity, suffix)


def _network_track(samples: pd.DataFrame, alias: str, name: str, link: float | None) -> Track | None:
    capacity, suffix = (link * 8e-6, "") if link else (None, "; link rate not known")
    return _server_track(samples, alias, name, "net_tx", "network out", "Mbit/s", "network", 8e-6, capacity, suffix)


def _memory_track(samples: pd.DataFrame, alias: str, name: str) -> Track | None:
    total = _samples_of(samples, alias, "memory_total")["value"]
    installed = float(total.max()) if len(total) else 0.0
    divisor, unit = (1024**3, "GiB") if installed >= LARGE_B else (1024**2, "MiB")
    capacity = installed / divisor if installed else None
    return _server_track(samples, alias, name, "memory_used", "memory in use", unit, "memory", 1 / divisor, capacity)


def core_tracks(samples: pd.DataFrame, host: str, name: str, allowed: list[int] | None) -> Iterator[Track]:
    """Yield tracks of the busiest cores that a host may use (None: all cores), in the order of their numbers.

    `host` is its alias, `name` its display name; `allowed` are the numbers of the cores. At most `MOST_CORES` are
    yielded.
    """
    cores, _ = _core_samples(samples, host, allowed)
    busiest = cores.groupby("item")["value"].mean().sort_values(ascending=False)
    for item in sorted(busiest.index[:MOST_CORES], key=lambda text: (len(text), text)):
        core = f"core {item.removeprefix('cpu')}"
        yield Track(f"{name}: {core}", "%", core, False, _in_percent(cores[cores["item"] == item]), 100.0)


def process_tracks(samples: pd.DataFrame, host: str, name: str) -> Iterator[Track]:
    """Yield tracks of processes, matched between trials by label and rank of CPU use, as process ids differ.

    `host` is the alias of the host, `name` its display name. The busiest `MOST_PROCESSES` are yielded, busiest first.
    """
    used = _samples_of(samples, host, "process_cpu")
    means = used.groupby(["trial", "item"])["value"].mean().reset_index()
    means["label"] = means["item"].str.replace(r":[^:]*$", "", regex=True)
    means["rank"] = means.groupby(["trial", "label"])["value"].rank(method="first", ascending=False).astype(int)
    ranked = used.merge(means[["trial", "item", "label", "rank"]], on=["trial", "item"])
    processes = []
    for (label, rank), own in ranked.groupby(["label", "rank"]):
        series = _in_percent(own)
        if len(series) and float(series["value"].max()) > IDLE_PERCENT:
            processes.append((float(series["value"].mean()), str(label), int(str(rank)), series))
    labels = [label for _, label, _, _ in processes]
    for _, label, rank, series in sorted(processes, key=lambda one: -one[0])[:MOST_PROCESSES]:
        process = f"{label}’s process {rank}" if labels.count(label) > 1 else f"process of {label}"
        capacity = 100.0 if float(series["value"].max()) <= 105 else None  # several threads can use more than one CPU
        unit = "%" if capacity else "% of one CPU"
        yield Track(f"{name}: {process}", unit, process, False, series, capacity, f"{NBSP}% of one CPU")


def _in_percent(samples: pd.DataFrame) -> pd.DataFrame:
    return samples.assign(value=100 * samples["value"])[["trial", "t_s", "value"]].sort_values(["trial", "t_s"])


GAP_INTERVALS = 2.5  # a line is interrupted at pauses longer than this many sampling intervals
SIMPLIFY_PT = 1.0  # details smaller than this are left out if many lines are drawn


def draw_lines(
    panel: Axes, samples: pd.DataFrame, timeline: Timeline, colour: str, width: float, slices: int | None = None,
    dashes: Any = "-",
) -> None:  # fmt: skip
    """Draw one line per trial, interrupted where samples are missing.

    `samples` has the columns trial, t_s and value; `width` is in points. With `slices` (for many trials) each line
    has only the lowest and highest value in each of so many slices of time. Details smaller than the thickness of a
    line are left out then.
    """
    opens = {t.trial: t.opens for t in timeline.trials}
    xs: list[float] = []
    ys: list[float] = []
    slice_s = timeline.end / slices if slices else 0.0
    for trial, own in samples.sort_values("t_s", kind="stable").groupby("trial", sort=False):
        times, values = own["t_s"].to_numpy(float), own["value"].to_numpy(float)
        steps = np.diff(times)
        usual = float(np.median(steps)) if len(steps) else 0.0
        gaps = np.flatnonzero(steps > GAP_INTERVALS * usual) + 1
        for piece in np.split(np.arange(len(times)), gaps):
            drawn = piece[extremes(times[piece], values[piece], slice_s)] if slices else piece
            xs += [*times[drawn] + opens[str(trial)], np.nan]
            ys += [*values[drawn], np.nan]
    (line,) = panel.plot(xs, ys, color=colour, linewidth=width, linestyle=dashes, solid_joinstyle="round", zorder=2)
    if slices:
        line.get_path().simplify_threshold = SIMPLIFY_PT


def extremes(times: np.ndarray, values: np.ndarray, slice_s: float) -> np.ndarray:
    """Return the sorted indices of the lowest and the highest value in every slice of the rising `times`."""
    number = times // slice_s
    starts = np.flatnonzero(np.diff(number, prepend=-np.inf))
    ends = np.append(starts[1:], len(times))[: len(starts)] - 1
    # NaN is neither lowest nor highest unless a slice has only NaN
    low, high = (np.lexsort((np.where(np.isnan(values), none, values), number)) for none in (np.inf, -np.inf))
    return np.unique(np.concatenate([low[starts], high[ends]]))
