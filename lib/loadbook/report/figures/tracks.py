"""What figure 7 shows: the resources of one block, on one clock, with the numbers that its titles and caption say.

Lines over time, one per trial: broken where samples are missing, and of many trials no more than can be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP
from loadbook.report.figures.axes import unit_for
from loadbook.report.figures.base import drawable
from loadbook.stats.saturation import FULL_SHARE, finest_source_only

ROLES = ("driver", "balancer", "lb", "proxy", "web", "backend", "db")
SHOWN = ("cpu_busy", "memory_used", "net_tx", "sockets_tcp_tw")
MOST_TRACKS = 8
PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
LARGE_B = 8 * 1024**3  # memory from which on GiB are easier to read than MiB
Hosts = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Trial:
    """One trial of the block: its start and the opening of its measurement window in seconds since the block began."""

    name: str
    treatment: str
    valid: bool
    start: float
    opens: float
    window: float


@dataclass(frozen=True)
class Track:
    """One panel: samples (trial, t_s, value) in its unit, its capacity, and from where on it is full.

    `noun` names the resource in a sentence; `mean` are the samples of the mean of several cores.
    """

    title: str
    noun: str
    driver: bool
    data: pd.DataFrame
    capacity: float | None = None
    words: str = ""
    mean: pd.DataFrame | None = None

    @property
    def full(self) -> float | None:
        """From which value on the resource is full; None where its capacity is not known."""
        return None if self.capacity is None else FULL_SHARE * self.capacity


@dataclass(frozen=True)
class Block:
    """The trials and tracks of one block of a run."""

    number: int
    trials: tuple[Trial, ...]
    tracks: tuple[Track, ...]

    @cached_property
    def end(self) -> float:
        """Seconds from the block's first start to the end of its last sample or window."""
        last = {t.name: t.opens for t in self.trials}
        samples = [float((k.data["t_s"] + k.data["trial"].map(last).astype(float)).max()) for k in self.tracks]
        return max([1.0, *(t.opens + t.window for t in self.trials), *(s for s in samples if np.isfinite(s))])

    def measured(self, track: Track) -> pd.Series:
        """Return a track's values within the measurement windows of the trials that count."""
        window = {t.name: t.window for t in self.trials if t.valid}
        data = track.data[track.data["trial"].isin(list(window))]
        return data.loc[(data["t_s"] >= 0) & (data["t_s"] <= data["trial"].map(window).astype(float)), "value"]

    def full_share(self, track: Track) -> float | None:
        """Return the share of the measured samples at which the resource was full; None where that is not known."""
        values = self.measured(track)
        return None if track.full is None or values.empty else float((values >= track.full).mean())

    def number_of(self, track: Track) -> str:
        """Return what a panel's title says: how often the resource was full, or how much was used at most."""
        values, share = self.measured(track), self.full_share(track)
        if values.empty:
            why = "" if any(t.valid for t in self.trials) else ": no trial counts"
            return "not measured" + (why if len(track.data) else ": no monitor")
        highest = float(values.max())
        if share is None:
            return f"at most {f'{highest:,.0f}' if highest >= 100 else f'{highest:.3g}'}{track.words}"
        if share:
            return f"at or above {track.full:,.0f} in {max(1, round(100 * share))}{NBSP}% of the measured time"
        if track.title.endswith("%"):
            return f"never at {track.full:,.0f} (at most {highest:,.0f})"
        return f"at most {100 * highest / (track.capacity or 1):.0f}{NBSP}% of {_plainly(track.capacity or 1)}"


def _plainly(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def median_block(trials: pd.DataFrame) -> int:
    """Return the number of the block in the middle of the run."""
    blocks = sorted({int(b) for b in trials["block"]})
    return blocks[(len(blocks) - 1) // 2] if blocks else 1


def read_block(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, links: Mapping[str, float] | None,
    windows: Mapping[str, float] | None, block: int | None, rates: Mapping[str, float] | None = None,
) -> Block:  # fmt: skip
    """Take one block (default: the one in the middle) out of a run's tables; see `traces.draw`."""
    number = median_block(trials) if block is None else block
    mine = trials[trials["block"] == number].sort_values("slot")
    own = finest_source_only(traces[traces["trial"].isin(list(mine["trial"]))])
    laid = tuple(lay_out(own, mine, windows or {}))
    rate, tracks = _rate(laid, rates or {}), tracks_of(own, ordered(hosts), links or {})
    return Block(number, laid, tuple([rate, *tracks] if rate and tracks else tracks))


def lay_out(own: pd.DataFrame, mine: pd.DataFrame, windows: Mapping[str, float]) -> list[Trial]:
    """Lay the trials on one clock; a trial's first sample is taken as its start (the table's `started`)."""
    firsts, lasts = (own.groupby("trial")["t_s"].agg(f) for f in ("min", "max"))
    begun, found, free = float(mine["started"].min()), [], 0.0
    columns = (mine[c] for c in ("trial", "treatment", "valid", "started"))
    for name, treatment, valid, started in zip(*columns, strict=True):
        start = float(started) - begun if np.isfinite(started) else free
        window = float(windows.get(name, max(0.0, float(lasts.get(name, 0.0)))))
        opens = start - min(0.0, float(firsts.get(name, 0.0)))
        found.append(Trial(str(name), str(treatment), bool(valid), start, opens, window))
        free = opens + window
    return found


def tracks_of(own: pd.DataFrame, hosts: Hosts, links: Mapping[str, float]) -> list[Track]:
    """Return the tracks in the order of a request: CPU from driver to server, then the servers' other resources."""
    order = sorted(hosts, key=lambda h: _rank(hosts[h].get("roles", [])))
    servers = [h for h in order if "driver" not in hosts[h].get("roles", [])]
    tracks: list[Track | None] = [_cpu(own, h, hosts[h]) for h in order]
    tracks += [_network(own, h, hosts[h], links.get(h)) for h in servers]
    tracks += [f(own, h, hosts[h]) for f in (_memory, _sockets) for h in servers]
    return [t for t in tracks if t is not None][:MOST_TRACKS]


def _rate(laid: Sequence[Trial], rates: Mapping[str, float]) -> Track | None:
    """Return each trial's rate of good answers as a line over its measurement window; its tool prints no other."""
    known = [(t.name, at, rates[t.name]) for t in laid if t.name in rates for at in (0.0, t.window)]
    if not known:
        return None
    data = pd.DataFrame(known, columns=["trial", "t_s", "value"])
    unit = unit_for(get_metric("ok_per_s"), float(data["value"].max()))
    title = ", ".join(filter(None, ["ok responses per second", unit.words]))
    data["value"] /= unit.divisor
    return Track(title, "the answered rate", False, data, words=" in a trial")


def _rank(roles: Sequence[str]) -> int:
    return min((ROLES.index(r) for r in roles if r in ROLES), default=len(ROLES))


def ordered(hosts: Hosts) -> Hosts:
    """Return the hosts, those that are called alike (several drivers) each with its place among them."""
    called = {alias: who(host, alias) for alias, host in hosts.items()}
    alike = {name: [a for a in hosts if called[a] == name] for name in called.values()}
    return {
        alias: dict(host, place=group.index(alias)) if len(group := alike[called[alias]]) > 1 else host
        for alias, host in hosts.items()
    }


def who(host: Mapping[str, Any], alias: str) -> str:
    """Return what a host is called: by its roles, never by its address."""
    name, place = "/".join(host.get("roles", [])) or alias, host.get("place")
    number = "" if place is None else f"{place + 1}th " if place >= len(PLACES) else f"{PLACES[place]} "
    return drawable(number + name, alias)


def samples_of(own: pd.DataFrame, host: str, metric: str) -> pd.DataFrame:
    """Return a host's samples of one metric."""
    return own[(own["host"] == host) & (own["metric"] == metric)]


def _summed(samples: pd.DataFrame, factor: float) -> pd.DataFrame:
    return samples.assign(value=samples["value"] * factor).groupby(["trial", "t_s"])["value"].sum().reset_index()


def _cpu(own: pd.DataFrame, alias: str, host: Mapping[str, Any]) -> Track:
    """Return the busiest of the cores that the host may use, and their mean; empty without a monitor."""
    cores, name, allowed = samples_of(own, alias, "cpu_busy"), who(host, alias), host.get("cpus")
    items = {f"cpu{n}" for n in allowed} if allowed else set(cores["item"]) - {"all"}
    cores = cores[cores["item"].isin(list(items))]
    by_time = cores.assign(value=100 * cores["value"]).groupby(["trial", "t_s"])["value"]
    which = "busiest core" if len(items) > 1 else "core"
    mean = by_time.mean().reset_index() if len(items) > 1 else None
    driver = "driver" in host.get("roles", [])
    return Track(f"{name}: {which}, %", f"the {name}’s {which}", driver, by_time.max().reset_index(), 100.0, "", mean)


def _network(own: pd.DataFrame, alias: str, host: Mapping[str, Any], link: float | None) -> Track | None:
    sent, name = samples_of(own, alias, "net_tx"), who(host, alias)
    if sent.empty:
        return None
    capacity, words = (link * 8e-6, "") if link else (None, "; link rate not known")
    return Track(f"{name}: network out, Mbit/s", f"the {name}’s network", False, _summed(sent, 8e-6), capacity, words)


def _memory(own: pd.DataFrame, alias: str, host: Mapping[str, Any]) -> Track | None:
    used, total, name = samples_of(own, alias, "memory_used"), samples_of(own, alias, "memory_total"), who(host, alias)
    if used.empty:
        return None
    installed = float(total["value"].max()) if len(total) else None
    divisor, unit = (1024**3, "GiB") if (installed or 0) >= LARGE_B else (1024**2, "MiB")
    capacity = installed / divisor if installed else None
    return Track(f"{name}: memory in use, {unit}", f"the {name}’s memory", False, _summed(used, 1 / divisor), capacity)


def _sockets(own: pd.DataFrame, alias: str, host: Mapping[str, Any]) -> Track | None:
    waiting, name = samples_of(own, alias, "sockets_tcp_tw"), who(host, alias)
    if waiting.empty:
        return None
    return Track(f"{name}: sockets in TIME-WAIT", f"the {name}’s sockets", False, _summed(waiting, 1.0))


GAPS = 2.5  # a hole longer than this many sampling intervals is a gap in the line
THICK_PT = 1.0  # of a line of many: what is smaller is left out


def draw_lines(
    panel: Axes, data: pd.DataFrame, block: Block, colour: str, width: float, slices: int | None = None
) -> None:
    """Draw one line per trial, broken where samples are missing.

    With `slices` the lines are of many trials: each has only the extremes of so many slices of the time, and no detail
    smaller than a line is thick.
    """
    opens = {t.name: t.opens for t in block.trials}
    xs: list[float] = []
    ys: list[float] = []
    slice_s = block.end / slices if slices else 0.0
    for trial, samples in data.sort_values("t_s", kind="stable").groupby("trial", sort=False):
        times, values = samples["t_s"].to_numpy(float), samples["value"].to_numpy(float)
        steps = np.diff(times)
        usual = float(np.median(steps)) if len(steps) else 0.0
        holes = np.flatnonzero(steps > GAPS * usual) + 1
        for piece in np.split(np.arange(len(times)), holes):
            shown = piece[extremes(times[piece], values[piece], slice_s)] if slices else piece
            xs += [*times[shown] + opens[str(trial)], np.nan]
            ys += [*values[shown], np.nan]
    (line,) = panel.plot(xs, ys, color=colour, linewidth=width, solid_joinstyle="round", zorder=2)
    if slices:
        line.get_path().simplify_threshold = THICK_PT


def extremes(times: np.ndarray, values: np.ndarray, slice_s: float) -> np.ndarray:
    """Return the places of the lowest and the highest value in every slice of the rising `times`, in their order."""
    number = times // slice_s
    starts = np.flatnonzero(np.diff(number, prepend=-np.inf))
    ends = np.append(starts[1:], len(times))[: len(starts)] - 1
    # what is not a number is neither, unless a slice has nothing else
    low, high = (np.lexsort((np.where(np.isnan(values), none, values), number)) for none in (np.inf, -np.inf))
    return np.unique(np.concatenate([low[starts], high[ends]]))
