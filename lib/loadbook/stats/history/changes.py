"""When an effect changed: circular binary segmentation (Olshen and others 2004), weighted by the runs' own errors.

Of all arcs of runs, each at least `MIN_SEGMENT_RUNS` long, the one is sought whose mean lies furthest from that of the runs
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

from loadbook.stats.history.level import sd_between_runs
from loadbook.stats.swaps import FloatArray

MIN_SEGMENT_RUNS = 3  # runs of a level: one or two that lie apart are no change
MAX_RUNS = 1000  # runs that are searched, the newest: arcs grow by the square


def find_changes(logs: Sequence[tuple[float, float]], rate: float) -> list[int]:
    """Return the places from which on a new level holds, rising.

    `logs` has the log of each run's ratio with its standard error, in the order of time.
    """
    y, errors = np.array(logs, float).reshape(-1, 2).T
    first = max(0, len(y) - MAX_RUNS)
    edges = _prune_edges(y[first:], errors[first:], sorted(set(_segment_edges(y[first:], errors[first:], rate))), rate)
    return [first + edge for edge in edges]


def _segment_edges(y: FloatArray, errors: FloatArray, rate: float) -> list[int]:
    """Return the edges of the arc that stands out, and those found in each of the pieces that it leaves."""
    if len(y) < 2 * MIN_SEGMENT_RUNS:
        return []
    arcs = _arcs(len(y))
    p = _arc_p(y, _weights(y, errors), arcs)
    best = int(np.argmin(p))
    if p[best] * len(arcs) > rate:
        return []
    edges = [0, *(int(edge) for edge in arcs[best] if 0 < edge < len(y)), len(y)]
    inner = [start + inner_edge for start, end in pairwise(edges) for inner_edge in _segment_edges(y[start:end], errors[start:end], rate)]
    return edges[1:-1] + inner


def _prune_edges(y: FloatArray, errors: FloatArray, edges_found: list[int], rate: float) -> list[int]:
    """Take back, the weakest first, what the runs up to the neighbouring changes do not show."""
    while edges_found:
        edges = [0, *edges_found, len(y)]
        p = [_cut_p(y[a:c], errors[a:c], b - a) for a, b, c in zip(edges, edges[1:], edges[2:], strict=False)]
        weakest = int(np.argmax(p))
        if p[weakest] <= rate:
            break
        edges_found = edges_found[:weakest] + edges_found[weakest + 1 :]
    return edges_found


def _cut_p(y: FloatArray, errors: FloatArray, cut: int) -> float:
    return float(_arc_p(y, _weights(y, errors), np.array([[0, cut]]))[0])


def _arcs(runs: int) -> NDArray[np.integer]:
    """Return start and end of every arc; what it leaves on either side is nothing or long enough for a level."""
    starts, ends = np.triu_indices(runs + 1, MIN_SEGMENT_RUNS)
    sides = [(side == 0) | (side >= MIN_SEGMENT_RUNS) for side in (starts, runs - ends)]
    return np.column_stack([starts, ends])[sides[0] & sides[1] & (ends - starts < runs)]


def _weights(y: FloatArray, errors: FloatArray) -> FloatArray:
    return np.asarray(1 / (errors**2 + sd_between_runs(y, errors) ** 2))


def _arc_p(y: FloatArray, weights: FloatArray, arcs: NDArray[np.integer]) -> FloatArray:
    """Return the p-value of each arc against the rest, of an F test with 1 and n - 2 degrees of freedom."""
    total_weight = weights.sum()
    centred = y - weights @ y / total_weight
    sums, shares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (weights * centred, weights))
    inside = shares[arcs[:, 1]] - shares[arcs[:, 0]]
    explained = (sums[arcs[:, 1]] - sums[arcs[:, 0]]) ** 2 * total_weight / (inside * (total_weight - inside))
    residual = np.maximum(weights @ centred**2 - explained, 1e-12 * len(y))
    return np.asarray(fdtrc(1, len(y) - 2, explained / residual * (len(y) - 2)))
