"""Were the requests spread evenly over the nodes? Counted on the nodes themselves, never by the load generator.

Each node's service counts what it answers; the difference of its counter from before to after the load is the node's
part of one trial. The rule: a trial's distance is the largest deviation of a node's part from an equal one, as a share
of the equal part (two nodes with 49 and 51 % are 2 % apart from even); a treatment's is the largest of its trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from loadbook.core.units import NBSP, joined

if TYPE_CHECKING:
    import pandas as pd

COUNTERS = ("served_requests", "accepted_connections")
NOUNS = {"served_requests": "requests", "accepted_connections": "connections"}
EVEN = 0.05  # farther from an equal part in any trial is called uneven
NOTHING = 1e-3  # of all requests: a node that is only asked for its counter answers as little


@dataclass(frozen=True)
class Spread:
    """How one treatment's requests (or connections) were spread over its nodes.

    Attributes
    ----------
    shares : node -> median over trials of its share of all that the nodes answered (0 to 1).
    trials : how many trials have a count of every node.
    apart : largest deviation from an equal part in any trial, as a share of that part; NaN without a trial.
    silent : nodes that answered next to nothing in at least one trial.
    """

    treatment: str
    shares: Mapping[str, float]
    trials: int
    apart: float
    silent: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Tell whether any trial was counted on every node."""
        return self.trials > 0

    @property
    def even(self) -> bool:
        """Tell whether every trial of the treatment was spread evenly."""
        return self.known and not self.silent and self.apart <= EVEN

    @property
    def word(self) -> str:
        """The verdict: even to within how much, or how uneven."""
        if not self.known:
            return "not counted"
        if self.silent:
            return f"nothing reached {joined(self.silent)}"
        up_to = f"{max(1, math.ceil(round(self.apart * 100, 6)))}{NBSP}%"
        return f"even to within {up_to}" if self.even else f"uneven by up to {up_to}"


def spread(
    traces: pd.DataFrame,
    trials: pd.DataFrame,
    role: str,
    nodes: Mapping[str, Sequence[str]],
    counter: str = "served_requests",
) -> list[Spread]:
    """Return how each treatment's requests were spread, from the nodes' own counters.

    Parameters
    ----------
    traces : the run's traces; `counter` has a row per host with the count so far, before and after the load.
    trials : the run's trials; those that are valid count.
    role, nodes : of the nodes; and treatment -> its hosts, over which its requests should be spread.
    """
    counts = rises(traces[traces["role"] == role], counter)
    valid = trials[trials["valid"]]
    return [
        _of_treatment(name, list(hosts), counts, list(valid.loc[valid["treatment"] == name, "trial"]))
        for name, hosts in nodes.items()
    ]


def rises(traces: pd.DataFrame, counter: str) -> dict[tuple[str, str], float]:
    """Return (trial, host) -> how much its counters rose from their first to their last reading."""
    own = traces[traces["metric"] == counter].sort_values("t_s", kind="stable")
    read = own.groupby(["trial", "host", "item"], sort=False)["value"].agg(["first", "last", "size"])
    twice = read[read["size"] > 1].reset_index()
    risen: dict[tuple[str, str], float] = {}
    for trial, host, rise in zip(twice["trial"], twice["host"], twice["last"] - twice["first"], strict=True):
        risen[(trial, host)] = risen.get((trial, host), 0.0) + float(rise)
    return risen


def _of_treatment(name: str, hosts: list[str], counts: Mapping[tuple[str, str], float], trials: list[str]) -> Spread:
    whole = [t for t in trials if all((t, host) in counts for host in hosts)]
    parts = [[counts[(t, host)] for host in hosts] for t in whole]
    parts = [part for part in parts if sum(part) > 0]
    if not parts or not hosts:
        return Spread(name, {}, 0, math.nan)
    shares = [[count / sum(part) for count in part] for part in parts]
    apart = max(abs(share * len(hosts) - 1) for row in shares for share in row)
    silent = tuple(host for k, host in enumerate(hosts) if any(row[k] < NOTHING for row in shares))
    usual = {host: median(row[k] for row in shares) for k, host in enumerate(hosts)}
    return Spread(name, usual, len(parts), apart, silent)


def sentence(found: Sequence[Spread], labels: Mapping[str, str], counter: str = "served_requests") -> str:
    """Return whether the nodes of every treatment had equal parts, in one sentence."""
    many, noun = [s for s in found if len(s.shares) > 1 or not s.known], NOUNS.get(counter, counter)
    counted = [s for s in many if s.known]
    if not counted:
        return f"Not counted: no service told how many {noun} it answered." if many else "One node only: no spread."
    silent = [s for s in counted if s.silent]
    if silent:
        return f"Not spread: in {labels[silent[0].treatment]}, {silent[0].word} in at least one trial."
    uneven = [s for s in counted if not s.even]
    trials = sum(s.trials for s in counted)
    if not uneven:
        worst = max(counted, key=lambda s: s.apart)
        return f"All nodes had equal parts of the {noun}, {worst.word} in each of {trials} trials."
    worst = max(uneven, key=lambda s: s.apart)
    kept = len(counted) - len(uneven)
    rest = f"; {kept} of {len(counted)} treatments even to within {EVEN * 100:g}{NBSP}%" if kept else ""
    return f"In {labels[worst.treatment]} a node’s part of the {noun} is {worst.word}{rest}."
