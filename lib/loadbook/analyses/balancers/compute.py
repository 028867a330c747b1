"""The nodes behind a balancer: their shares of the requests, and connections per request.

Requests and connections are counted by the nodes themselves, never by the load generator or the proxy: a count is the
increase of a service's own counter from before to after the load. The deviation of a trial is the distance of the most
uneven node from an equal share, relative to that share (two nodes with 49 and 51 % deviate by 2 %); the deviation of a
treatment is the largest deviation of its trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from loadbook.core.units import NBSP, join_words
from loadbook.study.treatments import ABSENT_VARIANT

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.store.tables import RunData
    from loadbook.study.model import Study

NODE_COUNTERS = ("served_requests", "accepted_connections")
MAX_EVEN_DEVIATION = 0.05  # a treatment with a larger deviation in any trial is called uneven
IDLE_SHARE = 1e-3  # share of all requests below which a node counts as idle: reading its counter makes a few requests


@dataclass(frozen=True)
class NodeShares:
    """The shares of one treatment's requests (or connections) that its nodes answered (or accepted).

    Attributes
    ----------
    shares : node -> its share (0 to 1) of the total of all nodes, median over trials.
    trials : number of trials in which every node was counted.
    max_deviation : largest deviation from an equal share in any trial, relative to that share; NaN without such trials.
    idle_nodes : nodes that answered almost no request in at least one trial.
    """

    treatment: str
    shares: Mapping[str, float]
    trials: int
    max_deviation: float
    idle_nodes: tuple[str, ...] = ()

    @property
    def is_counted(self) -> bool:
        """Whether there is a trial in which every node was counted."""
        return self.trials > 0

    @property
    def is_even(self) -> bool:
        """Whether every trial deviates by at most `MAX_EVEN_DEVIATION`; false if a node is idle or not counted."""
        return self.is_counted and not self.idle_nodes and self.max_deviation <= MAX_EVEN_DEVIATION

    @property
    def text(self) -> str:
        """The result in words: "even to within 2 %", "uneven by up to 9 %", the idle nodes, or "not counted"."""
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
    """Return each treatment's requests by node in its valid trials, as the nodes' own counters report them.

    In `traces`, the metric `counter` has rows for each host of `role` with its count before and after the load.
    `nodes` maps each treatment to the hosts over which its requests should be spread.
    """
    counts = counter_increases(traces[traces["role"] == role], counter)
    valid, shares = trials[trials["valid"]], []
    for treatment, hosts in nodes.items():
        own = valid.loc[valid["treatment"] == treatment, "trial"]
        rows = [[counts[t, host] for host in hosts] for t in own if all((t, host) in counts for host in hosts)]
        parts = [[count / sum(row) for count in row] for row in rows if sum(row) > 0]
        if not parts:
            shares.append(NodeShares(treatment, {}, 0, math.nan))
            continue
        deviation = max(abs(share * len(hosts) - 1) for row in parts for share in row)
        idle = tuple(host for k, host in enumerate(hosts) if any(row[k] < IDLE_SHARE for row in parts))
        medians = {host: median(row[k] for row in parts) for k, host in enumerate(hosts)}
        shares.append(NodeShares(treatment, medians, len(parts), deviation, idle))
    return shares


def counter_increases(traces: pd.DataFrame, counter: str) -> dict[tuple[str, str], float]:
    """Return (trial, host) -> increase of the host's counters from their first to their last reading in the trial."""
    own = traces[traces["metric"] == counter].sort_values("t_s", kind="stable")
    readings = own.groupby(["trial", "host", "item"], sort=False)["value"].agg(["first", "last", "size"])
    repeated = readings[readings["size"] > 1].reset_index()
    increases = (repeated["last"] - repeated["first"]).groupby([repeated["trial"], repeated["host"]]).sum()
    keys = [(str(key[0]), str(key[1])) for key in increases.index.tolist()]
    return dict(zip(keys, increases.to_numpy(float).tolist(), strict=True))


def evenness_sentence(shares: Sequence[NodeShares], labels: Mapping[str, str]) -> str:
    """Return one sentence on whether the nodes of every treatment had equal shares of the requests.

    Shares are equal if they deviate by at most `MAX_EVEN_DEVIATION` in each trial. `labels`: treatment -> label.
    Without a treatment of several nodes, the sentence says so.
    """
    multi_node = [s for s in shares if len(s.shares) > 1 or not s.is_counted]
    counted = [s for s in multi_node if s.is_counted]
    if not multi_node:
        return "One node only: no spread."
    if not counted:
        return "Not counted: no service reported how many requests it answered."
    idle = next((s for s in counted if s.idle_nodes), None)
    if idle:
        return f"Not spread: in {labels[idle.treatment]}, {idle.text} in at least one trial."
    uneven = [s for s in counted if not s.is_even]
    worst = max(uneven or counted, key=lambda s: s.max_deviation)
    if not uneven:
        trials = sum(s.trials for s in counted)
        return f"All nodes had equal parts of the requests, {worst.text} in each of {trials} trials."
    even, rest = len(counted) - len(uneven), ""
    if even:
        rest = f"; {even} of {len(counted)} treatments even to within {MAX_EVEN_DEVIATION * 100:g}{NBSP}%"
    return f"In {labels[worst.treatment]} a node’s part of the requests is {worst.text}{rest}."


REUSE_LIMIT = 0.9  # connections per request: below it, requests reused connections
MIN_DECIMAL_RATE = 0.5  # below it, the text is "1 for 2,300 requests"


def connections_per_request(traces: pd.DataFrame, trials: pd.DataFrame, roles: Sequence[str]) -> pd.DataFrame:
    """Return connections per request, one row per trial in which the services of these roles counted both.

    Columns: trial, treatment, block, valid, requests, connections (accepted during the load), value (connections per
    request). Trials without an answered request are left out.
    """
    own, totals = traces[traces["role"].isin(roles)], dict[str, dict[str, float]]()
    for counter in NODE_COUNTERS:
        totals[counter] = {}
        for (trial, _), increase in counter_increases(own, counter).items():
            totals[counter][trial] = totals[counter].get(trial, 0.0) + increase
    per_trial = trials[["trial", "treatment", "block", "valid"]].assign(
        requests=trials["trial"].map(totals["served_requests"]),
        connections=trials["trial"].map(totals["accepted_connections"]),
    )
    per_trial = per_trial[(per_trial["requests"] > 0) & per_trial["connections"].notna()].reset_index(drop=True)
    return per_trial.assign(value=per_trial["connections"] / per_trial["requests"])


def per_request_text(per_request: float) -> str:
    """Return connections per request as text: "1.00 per request"; "1 for 2,300 requests" below 0.5; "none opened"."""
    if per_request <= 0:
        return "none opened"
    if per_request >= MIN_DECIMAL_RATE:
        return f"{per_request:.2f} per request"
    requests = 1 / per_request
    return f"1 for {round(requests, 1 - math.floor(math.log10(requests))):,.0f} requests"  # two significant digits


def pooling_sentence(medians: dict[str, float], names: dict[str, str]) -> str:
    """Return a sentence on the treatments that reuse connections, and on how many the others open per request.

    `medians`: treatment -> connections per request (below 0.9: reused); `names`: treatment -> display name.
    """
    if not medians:
        return "Not known: no application counted its connections."
    reusing = [f"{names[t]} ({per_request_text(value)})" for t, value in medians.items() if value < REUSE_LIMIT]
    opening, rest = [value for value in medians.values() if value >= REUSE_LIMIT], ""
    if opening:
        least, most = per_request_text(min(opening)), per_request_text(max(opening))
        rest = most if least == most else f"{min(opening):.2f} to {most}"
    if not reusing:
        return f"No connection is used again: {rest}."
    others = f"; every other way opens {rest}" if opening else ""
    return f"Connections are used again by {join_words(reusing)}{others}."


def node_role(study: Study) -> str | None:
    """Return the role of the nodes behind the load's target; None if the target has no backends."""
    backends = study.roles[study.workload.target].backends
    return backends[0] if backends else None


def nodes_by_treatment(data: RunData) -> dict[str, list[str]]:
    """Return treatment -> the hosts of its nodes; empty in a study without a balancer."""
    role = node_role(data.study)
    return {name: data.hosts_of(name, role) for name in data.plan.treatments} if role else {}


def series_by_treatment(study: Study) -> dict[str, str]:
    """Return treatment -> name of its series; the treatments of a series differ in the number of nodes only.

    The A/A arm and the positive control are in no series.
    """
    base, nodes, balancer = study.levels_of(study.baseline), node_role(study), study.workload.target
    facets = {name: (factor.role, factor.of) for name, factor in study.factors.items()}
    series = {}
    for treatment in (name for name, spec in study.treatments.items() if spec.check is None):
        levels = study.levels_of(treatment)
        variants = [str(levels[name]) for name, facet in facets.items() if facet == (balancer, "variant")]
        names = [f"no {balancer}" if text == ABSENT_VARIANT else text for text in variants] or [balancer]
        fixed = ((balancer, "variant"), (nodes, "hosts"))
        names += [f"{n} {levels[n]}" for n in levels if facets[n] not in fixed and levels[n] != base[n]]
        series[treatment] = ", ".join(names)
    return series
