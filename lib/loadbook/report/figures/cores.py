"""Figure 7 in detail: each core and each process of one host, over one block.

In five seconds: which core or process could do no more, while others had room?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd
from matplotlib.figure import Figure

from loadbook.core.units import NBSP, join_words
from loadbook.report.figures.base import in_house_style
from loadbook.report.figures.traces import SOME, drawn_block
from loadbook.report.figures.tracks import Block, Hosts, Track, lay_out, median_block, ordered, samples_of, who
from loadbook.stats.saturation import finest_source_only

MOST_CORES, MOST_PROCESSES = 8, 6
IDLE = 0.5  # percent of one CPU: processes that never used more are left out


def needed(traces: pd.DataFrame, host: str) -> bool:
    """Say whether a monitor told single cores or processes of a host."""
    own = traces[traces["host"] == host]
    single = (own["metric"] == "cpu_busy") & (own["item"] != "all")
    return bool((single | (own["metric"] == "process_cpu")).any())


def read_host(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, host: str, windows: Mapping[str, float] | None = None,
    block: int | None = None,
) -> Block:  # fmt: skip
    """Take one host of one block (default: the one in the middle) out of a run's tables."""
    number = median_block(trials) if block is None else block
    mine = trials[trials["block"] == number].sort_values("slot")
    own = finest_source_only(traces[traces["trial"].isin(list(mine["trial"]))])
    name = who(ordered(hosts)[host], host)
    tracks = (*_cores(own, host, name, hosts[host].get("cpus")), *_processes(own, host, name))
    return Block(number, tuple(lay_out(own, mine, windows or {})), tracks)


def _cores(own: pd.DataFrame, host: str, name: str, allowed: list[int] | None) -> Iterator[Track]:
    cores = samples_of(own, host, "cpu_busy")
    items = {f"cpu{n}" for n in allowed} if allowed else set(cores["item"]) - {"all"}
    busiest = cores[cores["item"].isin(list(items))].groupby("item")["value"].mean().sort_values(ascending=False)
    for item in sorted(busiest.index[:MOST_CORES], key=lambda text: (len(text), text)):
        data = _series(cores[cores["item"] == item])
        core = f"core {item.removeprefix('cpu')}"
        yield Track(f"{name}: {core}, %", core, False, data, 100.0)


def _processes(own: pd.DataFrame, host: str, name: str) -> Iterator[Track]:
    """Yield the processes by label and, within a trial, by how much they used: ids are others in every trial."""
    used = samples_of(own, host, "process_cpu")
    means = used.groupby(["trial", "item"])["value"].mean().reset_index()
    means["label"] = means["item"].str.replace(r":[^:]*$", "", regex=True)
    means["rank"] = means.groupby(["trial", "label"])["value"].rank(method="first", ascending=False).astype(int)
    ranked = used.merge(means[["trial", "item", "label", "rank"]], on=["trial", "item"])
    found = []
    for (label, rank), data in ranked.groupby(["label", "rank"]):
        series = _series(data)
        if len(series) and float(series["value"].max()) > IDLE:
            found.append((float(series["value"].mean()), str(label), int(str(rank)), series))
    counts = {label: sum(own == label for _, own, _, _ in found) for _, label, _, _ in found}
    for _, label, rank, series in sorted(found, key=lambda one: -one[0])[:MOST_PROCESSES]:
        process = f"{label}’s process {rank}" if counts[label] > 1 else f"process of {label}"
        capacity = 100.0 if float(series["value"].max()) <= 105 else None  # several threads fill more than one CPU
        title = f"{name}: {process}, % of one CPU" + ("" if capacity is None else ", %")
        title = f"{name}: {process}, %" if capacity else title
        yield Track(title, process, False, series, capacity, f"{NBSP}% of one CPU")


def _series(data: pd.DataFrame) -> pd.DataFrame:
    return data.assign(value=100 * data["value"])[["trial", "t_s", "value"]].sort_values(["trial", "t_s"])


@in_house_style
def draw(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str], host: str,
    windows: Mapping[str, float] | None = None, block: int | None = None, narrow: bool = False,
) -> Figure:  # fmt: skip
    """Draw a panel per core and process, each from 0 to one whole CPU.

    Parameters
    ----------
    traces, trials, hosts, labels, windows, block : as of the figure `traces`.
    host : the alias of the host.
    """
    return drawn_block(read_host(traces, trials, hosts, host, windows, block), labels, narrow)


def answer(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str], host: str,
    windows: Mapping[str, float] | None = None, block: int | None = None,
) -> str:  # fmt: skip
    """Return which cores and processes of the host were full."""
    shown, name = read_host(traces, trials, hosts, host, windows, block), who(ordered(hosts)[host], host)
    shares = [(t, share) for t in shown.tracks if (share := shown.full_share(t)) is not None]
    full = [f"{t.noun} ({round(100 * s)}{NBSP}% of the measured time)" for t, s in shares if s > SOME]
    if full:
        return f"On the {name}, full: {join_words(full)}."
    return f"On the {name} no core and no process was full." if shares else f"On the {name}: not known."


def how(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str], host: str,
    windows: Mapping[str, float] | None = None, block: int | None = None,
) -> str:  # fmt: skip
    """Return how the figure is read, and what it leaves out."""
    allowed, shown = hosts[host].get("cpus"), read_host(traces, trials, hosts, host, windows, block)
    said = f"Block {shown.number}; 100{NBSP}% is one whole CPU; amber: at or above 90{NBSP}%."
    said += f" Only the CPUs that the host is given: {join_words([str(n) for n in allowed])}." if allowed else ""
    return f"{said} Processes by how much they used, those that hardly ran left out."


def alt(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str], host: str,
    windows: Mapping[str, float] | None = None, block: int | None = None,
) -> str:  # fmt: skip
    """Return the answer and the number of every panel."""
    shown = read_host(traces, trials, hosts, host, windows, block)
    said = "; ".join(f"{t.title.removesuffix(', %')}: {shown.number_of(t)}" for t in shown.tracks)
    return f"Cores and processes of one host. {answer(traces, trials, hosts, labels, host, windows, block)} {said}."
