"""Were the requests spread evenly over the nodes? Counted on the nodes themselves, never by the load generator.

Each node's service counts what it answers; the difference of its counter from before to after the load is the node's
part of one trial. The rule: a trial's distance is the largest deviation of a node's part from an equal one, as a share
of the equal part (two nodes with 49 and 51 % are 2 % apart from even); a treatment's is the largest of its trials.

How many connections an application is sent for each request that it answers: the proof that pooling pools.

Counted by the application itself, before the load and after it, never by the load generator or the proxy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from loadbook.core.units import NBSP, join_words

if TYPE_CHECKING:
    import pandas as pd

NODE_COUNTERS = ("served_requests", "accepted_connections")
COUNTER_NOUNS = {"served_requests": "requests", "accepted_connections": "connections"}
MAX_EVEN_DEVIATION = 0.05  # farther from an equal part in any trial is called uneven
IDLE_SHARE = 1e-3  # of all requests: a node that is only asked for its counter answers as little


@dataclass(frozen=True)
class NodeShares:
    """How one treatment's requests (or connections) were spread over its nodes.

    Attributes
    ----------
    shares : node -> median over trials of its share of all that the nodes answered (0 to 1).
    trials : how many trials have a count of every node.
    max_deviation : largest deviation from an equal part in any trial, as a share of that part; NaN without a trial.
    idle_nodes : nodes that answered next to nothing in at least one trial.
    """

    treatment: str
    shares: Mapping[str, float]
    trials: int
    max_deviation: float
    idle_nodes: tuple[str, ...] = ()

    @property
    def is_counted(self) -> bool:
        """Tell whether any trial was counted on every node."""
        return self.trials > 0

    @property
    def is_even(self) -> bool:
        """Tell whether every trial of the treatment was spread evenly."""
        return self.is_counted and not self.idle_nodes and self.max_deviation <= MAX_EVEN_DEVIATION

    @property
    def text(self) -> str:
        """The verdict: even to within how much, or how uneven."""
        if not self.is_counted:
            return "not counted"
        if self.idle_nodes:
            return f"nothing reached {join_words(self.idle_nodes)}"
        up_to = f"{max(1, math.ceil(round(self.max_deviation * 100, 6)))}{NBSP}%"
        return f"even to within {up_to}" if self.is_even else f"uneven by up to {up_to}"


def node_shares(
    traces: pd.DataFrame,
    trials: pd.DataFrame,
    role: str,
    nodes: Mapping[str, Sequence[str]],
    counter: str = "served_requests",
) -> list[NodeShares]:
    """Return how each treatment's requests were spread, from the nodes' own counters.

    Parameters
    ----------
    traces : the run's traces; `counter` has a row per host with the count so far, before and after the load.
    trials : the run's trials; those that are valid count.
    role, nodes : of the nodes; and treatment -> its hosts, over which its requests should be spread.
    """
    increases = counter_increases(traces[traces["role"] == role], counter)
    valid = trials[trials["valid"]]
    return [
        _treatment_shares(name, list(hosts), increases, list(valid.loc[valid["treatment"] == name, "trial"]))
        for name, hosts in nodes.items()
    ]


def counter_increases(traces: pd.DataFrame, counter: str) -> dict[tuple[str, str], float]:
    """Return (trial, host) -> how much its counters rose from their first to their last reading."""
    own = traces[traces["metric"] == counter].sort_values("t_s", kind="stable")
    readings = own.groupby(["trial", "host", "item"], sort=False)["value"].agg(["first", "last", "size"])
    repeated = readings[readings["size"] > 1].reset_index()
    increases: dict[tuple[str, str], float] = {}
    for trial, host, increase in zip(
        repeated["trial"], repeated["host"], repeated["last"] - repeated["first"], strict=True
    ):
        increases[(trial, host)] = increases.get((trial, host), 0.0) + float(increase)
    return increases


def _treatment_shares(
    name: str, hosts: list[str], counts: Mapping[tuple[str, str], float], trials: list[str]
) -> NodeShares:
    complete_trials = [t for t in trials if all((t, host) in counts for host in hosts)]
    counts_by_trial = [[counts[(t, host)] for host in hosts] for t in complete_trials]
    counts_by_trial = [part for part in counts_by_trial if sum(part) > 0]
    if not counts_by_trial or not hosts:
        return NodeShares(name, {}, 0, math.nan)
    shares = [[count / sum(part) for count in part] for part in counts_by_trial]
    max_deviation = max(abs(share * len(hosts) - 1) for row in shares for share in row)
    idle_nodes = tuple(host for k, host in enumerate(hosts) if any(row[k] < IDLE_SHARE for row in shares))
    median_shares = {host: median(row[k] for row in shares) for k, host in enumerate(hosts)}
    return NodeShares(name, median_shares, len(counts_by_trial), max_deviation, idle_nodes)


def evenness_sentence(shares: Sequence[NodeShares], labels: Mapping[str, str], counter: str = "served_requests") -> str:
    """Return whether the nodes of every treatment had equal parts, in one sentence."""
    multi_node, noun = [s for s in shares if len(s.shares) > 1 or not s.is_counted], COUNTER_NOUNS.get(counter, counter)
    counted = [s for s in multi_node if s.is_counted]
    if not counted:
        return (
            f"Not counted: no service told how many {noun} it answered." if multi_node else "One node only: no spread."
        )
    with_idle_nodes = [s for s in counted if s.idle_nodes]
    if with_idle_nodes:
        return (
            f"Not spread: in {labels[with_idle_nodes[0].treatment]}, {with_idle_nodes[0].text} in at least one trial."
        )
    uneven = [s for s in counted if not s.is_even]
    trials = sum(s.trials for s in counted)
    if not uneven:
        worst = max(counted, key=lambda s: s.max_deviation)
        return f"All nodes had equal parts of the {noun}, {worst.text} in each of {trials} trials."
    worst = max(uneven, key=lambda s: s.max_deviation)
    even_treatments = len(counted) - len(uneven)
    rest = (
        f"; {even_treatments} of {len(counted)} treatments even to within {MAX_EVEN_DEVIATION * 100:g}{NBSP}%"
        if even_treatments
        else ""
    )
    return f"In {labels[worst.treatment]} a node’s part of the {noun} is {worst.text}{rest}."


REUSE_LIMIT = 0.9  # connections per request: below it requests came on a connection that was there
MIN_DECIMAL_RATE = 0.5  # from here on a number is plainer than "1 for so many"
SIGNIFICANT_DIGITS = 2


def connections_per_request(traces: pd.DataFrame, trials: pd.DataFrame, roles: Sequence[str]) -> pd.DataFrame:
    """Return one row per trial that these roles' services counted: trial, treatment, block, valid, requests, ...

    ... `connections` (accepted during the load) and `value`, connections per request. A trial in which they answered
    nothing has no row.
    """
    own = traces[traces["role"].isin(roles)]
    increases = {name: counter_increases(own, name) for name in ("served_requests", "accepted_connections")}
    totals = {name: _total_by_trial(per_trial) for name, per_trial in increases.items()}
    per_trial = trials[["trial", "treatment", "block", "valid"]].assign(
        requests=trials["trial"].map(totals["served_requests"]),
        connections=trials["trial"].map(totals["accepted_connections"]),
    )
    per_trial = per_trial[(per_trial["requests"] > 0) & per_trial["connections"].notna()].reset_index(drop=True)
    return per_trial.assign(value=per_trial["connections"] / per_trial["requests"])


def _total_by_trial(increases: dict[tuple[str, str], float]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for (trial, _), increase in increases.items():
        totals[trial] = totals.get(trial, 0.0) + increase
    return totals


def median_per_request(per_trial: pd.DataFrame, treatments: Sequence[str]) -> dict[str, float]:
    """Return treatment -> median of connections per request over its trials that count, for those that have one."""
    medians = per_trial[per_trial["valid"]].groupby("treatment")["value"].median()
    return {name: float(medians[name]) for name in treatments if name in medians}


def per_request_text(per_request: float) -> str:
    """Return "1.00 per request", or of connections that are used again and again "1 for 2,300 requests"."""
    if per_request <= 0:
        return "none opened"
    if per_request >= MIN_DECIMAL_RATE:
        return f"{per_request:.{SIGNIFICANT_DIGITS}f} per request"
    requests = 1 / per_request
    return f"1 for {round(requests, SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(requests))):,.0f} requests"


def pooling_sentence(medians: dict[str, float], names: dict[str, str]) -> str:
    """Return which treatments use connections again, and what the others open."""
    if not medians:
        return "Not known: no application counted its connections."
    reusing = [f"{names[t]} ({per_request_text(value)})" for t, value in medians.items() if value < REUSE_LIMIT]
    opening = [value for value in medians.values() if value >= REUSE_LIMIT]
    range_text = (
        per_request_text(min(opening))
        if opening and per_request_text(min(opening)) == per_request_text(max(opening))
        else ""
    )
    rest = range_text or (
        f"{min(opening):.{SIGNIFICANT_DIGITS}f} to {per_request_text(max(opening))}" if opening else ""
    )
    if not reusing:
        return f"No connection is used again: {rest}."
    others = f"; {'every other way opens' if opening else ''} {rest}" if opening else ""
    return f"Connections are used again by {join_words(reusing)}{others}."
