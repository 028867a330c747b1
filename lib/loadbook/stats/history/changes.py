"""When an effect changed: circular binary segmentation (Olshen and others 2004), weighted by the runs' own errors.

Of all arcs of runs, each at least `LEAST` long, the one is sought whose mean lies furthest from that of the runs
outside; it counts if its F test, times the number of arcs (Bonferroni), says so. An arc finds a change that was taken
back, too, where a single cut is blind. Its pieces are searched in turn, and an edge that its own two neighbours do not
bear out is taken back. If runs scatter normally, at most the share `rate` of histories without a change shows one;
benchmarks/history.py counts what it is, and what it is with heavy tails.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from loadbook.stats.history.level import between_runs
from loadbook.stats.swaps import Floats

LEAST = 3  # runs of a level: one or two that lie apart are no change
MOST = 1000  # runs that are searched, the newest: arcs grow by the square


def changes(logs: Sequence[tuple[float, float]], rate: float) -> list[int]:
    """Return the places from which on a new level holds, rising.

    `logs` has the log of each run's ratio with its standard error, in the order of time.
    """
    y, own = np.array(logs, float).reshape(-1, 2).T
    first = max(0, len(y) - MOST)
    found = _borne_out(y[first:], own[first:], sorted(set(_search(y[first:], own[first:], rate))), rate)
    return [first + place for place in found]


def _search(y: Floats, own: Floats, rate: float) -> list[int]:
    """Return the edges of the arc that stands out, and those found in each of the pieces that it leaves."""
    if len(y) < 2 * LEAST:
        return []
    arcs = _arcs(len(y))
    p = _p(y, _weights(y, own), arcs)
    best = int(np.argmin(p))
    if p[best] * len(arcs) > rate:
        return []
    edges = [0, *(int(edge) for edge in arcs[best] if 0 < edge < len(y)), len(y)]
    inner = [start + place for start, end in pairwise(edges) for place in _search(y[start:end], own[start:end], rate)]
    return edges[1:-1] + inner


def _borne_out(y: Floats, own: Floats, places: list[int], rate: float) -> list[int]:
    """Take back, the weakest first, what the runs up to the neighbouring changes do not show."""
    while places:
        edges = [0, *places, len(y)]
        p = [_p_of_cut(y[a:c], own[a:c], b - a) for a, b, c in zip(edges, edges[1:], edges[2:], strict=False)]
        weakest = int(np.argmax(p))
        if p[weakest] <= rate:
            break
        places = places[:weakest] + places[weakest + 1 :]
    return places


def _p_of_cut(y: Floats, own: Floats, place: int) -> float:
    return float(_p(y, _weights(y, own), np.array([[0, place]]))[0])


def _arcs(runs: int) -> NDArray[np.integer]:
    """Return start and end of every arc; what it leaves on either side is nothing or long enough for a level."""
    starts, ends = np.triu_indices(runs + 1, LEAST)
    sides = [(side == 0) | (side >= LEAST) for side in (starts, runs - ends)]
    return np.column_stack([starts, ends])[sides[0] & sides[1] & (ends - starts < runs)]


def _weights(y: Floats, own: Floats) -> Floats:
    return np.asarray(1 / (own**2 + between_runs(y, own) ** 2))


def _p(y: Floats, weights: Floats, arcs: NDArray[np.integer]) -> Floats:
    """Return the p-value of each arc against the rest, of an F test with 1 and n - 2 degrees of freedom."""
    whole = weights.sum()
    centred = y - weights @ y / whole
    sums, shares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (weights * centred, weights))
    inside = shares[arcs[:, 1]] - shares[arcs[:, 0]]
    told = (sums[arcs[:, 1]] - sums[arcs[:, 0]]) ** 2 * whole / (inside * (whole - inside))
    rest = np.maximum(weights @ centred**2 - told, 1e-12 * len(y))
    return np.asarray(fdtrc(1, len(y) - 2, told / rest * (len(y) - 2)))
