"""Independent brute-force implementation of the comparison, written from its definition, to test `loadbook.stats`.

It shares no code with `loadbook.stats`: it lists every swap of the two arms within blocks, and tries every gap between
two shifts. It is slow but always exact, even beyond 12 blocks, where the package draws random swaps.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean, median, stdev
from typing import Any

import numpy as np
from scipy import stats

Array = np.ndarray[Any, Any]
Ends = tuple[float | None, float | None]
Cells = Mapping[tuple[str, Any], Any]

TINY = 1e-9  # what sums of ranks may differ by and still be equal
MISSING_SHARE = 0.2
LONG = 60
RANGE = (0.46, 1.63)


@lru_cache
def swaps(n: int) -> Array:
    """Return all 2^n combinations of signs, including the observed one (all +1), as an array of shape (2^n, n)."""
    return np.array(list(itertools.product((1.0, -1.0), repeat=n)))


def rank_parts(a: Array, b: Array) -> Array:
    """Return for each block the variant's rank minus the baseline's among all 2n values; ties get their mean rank."""
    ranks = stats.rankdata(np.concatenate([a, b]))
    return ranks[len(a) :] - ranks[: len(a)]


def signed_parts(a: Array, b: Array) -> Array:
    """Return for each block the signed rank of the difference (Wilcoxon); ties get their mean rank, zeros sign 0."""
    difference = tidy(np.asarray(b) - np.asarray(a))
    return np.sign(difference) * stats.rankdata(np.abs(difference))


def tidy(values: Array) -> Array:
    """Return the values rounded, so that differences of logarithms that differ only by rounding errors are equal."""
    return np.round(values, 12)


def two_sided(parts: Array) -> float:
    """Return the share of all swaps whose statistic is at least as far from 0 as the observed one."""
    reached = np.abs(swaps(len(parts)) @ parts)
    return float(np.mean(reached >= abs(parts.sum()) - TINY))


def at_least(parts: Array) -> float:
    """Return the share of all swaps whose statistic is at least the observed one."""
    return float(np.mean(swaps(len(parts)) @ parts >= parts.sum() - TINY))


def middles(points: Array) -> list[float]:
    """Return one shift inside each gap between neighbouring points, and one beyond each end."""
    points = np.unique(points)
    return [points[0] - 1, *((points[1:] + points[:-1]) / 2), points[-1] + 1]


def boundary(points: Array) -> Array:
    """Return the distinct shifts at which ranks change."""
    ordered = np.unique(np.sort(points))
    keep = [ordered[0]]
    for point in ordered[1:]:
        if point - keep[-1] > 1e-11:
            keep.append(point)
    return np.array(keep)


def inverted(parts_at: Callable[[float], Array], points: Array, level: float) -> Ends:
    """Return the ends of the interval of shifts that no one-sided test at (1 - level) / 2 rejects; None: unbounded."""
    points, risk = boundary(points), (1 - level) / 2
    gaps = middles(points)
    low = high = None
    for k, shift in enumerate(gaps):  # gap k ends at points[k]
        if at_least(parts_at(shift)) > risk:
            low = points[k - 1] if k else None
            break
    for k, shift in reversed(list(enumerate(gaps))):
        if at_least(-parts_at(shift)) > risk:
            high = points[k] if k < len(points) else None
            break
    return low, high


def rank_interval(a: Array, b: Array, level: float) -> Ends:
    return inverted(lambda shift: rank_parts(a, b - shift), (b[:, None] - a[None, :]).ravel(), level)


def signed_interval(a: Array, b: Array, level: float) -> Ends:
    return inverted(lambda shift: signed_parts(a, b - shift), walsh(b - a), level)


def walsh(d: Array) -> Array:
    return np.array([(d[i] + d[j]) / 2 for i in range(len(d)) for j in range(i, len(d))])


def t_interval(a: Array, b: Array, level: float) -> Ends:
    d = b - a
    half = stats.t.ppf((1 + level) / 2, len(d) - 1) * stdev(d) / math.sqrt(len(d))
    return fmean(d) - half, fmean(d) + half


def t_p(a: Array, b: Array) -> float:
    d = b - a
    if stdev(d) == 0:
        return 1.0 if fmean(d) == 0 else 0.0
    return float(2 * stats.t.sf(abs(fmean(d)) / (stdev(d) / math.sqrt(len(d))), len(d) - 1))


def uneven(a: Array, b: Array) -> bool:
    """Return whether one arm scatters more than the other: rank correlation of sum and difference with p < 0.05."""
    if len(set(tidy(a + b))) == 1 or len(set(tidy(b - a))) == 1:
        return False
    return bool(stats.spearmanr(tidy(a + b), tidy(b - a)).pvalue < 0.05)


def method_of(a: Array, b: Array) -> str | None:
    n = len(a)
    if n < 5:
        return None
    if n < 8:
        return "paired-t"
    if uneven(a, b):
        return "signed-rank" if n >= 10 else "paired-t"
    return "blocked-rank"


def estimate(method: str, a: Array, b: Array) -> float:
    if method == "paired-t":
        return fmean(b - a)
    if method == "signed-rank":
        return median(walsh(b - a))
    return median((b[:, None] - a[None, :]).ravel())


def plain_p(method: str, a: Array, b: Array) -> float:
    if method == "paired-t":
        return t_p(a, b)
    return two_sided(signed_parts(a, b) if method == "signed-rank" else rank_parts(a, b))


INTERVALS = {"paired-t": t_interval, "signed-rank": signed_interval, "blocked-rank": rank_interval}


@dataclass
class Expected:
    """Expected result of one comparison; numbers on the log scale, None for those that do not exist."""

    treatment: str
    blocks: int
    planned: int = 0
    incomplete: bool = False
    method: str | None = None
    estimate: float | None = None
    ci95: Ends | None = None
    ci90: Ends | None = None
    p: float | None = None
    p_adjusted: float | None = None
    verdict: str = "invalid"
    more: tuple[int, int] | None = None
    parts: dict[Any, float] = field(default_factory=dict)
    scatter: float = 0.0


def usable(value: Any) -> float | None:
    """Return the logarithm of a positive finite number; None for any other value."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return math.log(number) if math.isfinite(number) and number > 0 else None


def compare(cells: Cells, treatment: str, baseline: str, planned: list[Any]) -> Expected:
    """Compare a treatment with the baseline; `cells` is {(treatment, block): value}, `planned` lists all blocks."""
    logs = {key: usable(value) for key, value in cells.items()}
    both = [k for k in planned if logs.get((baseline, k)) is not None and logs.get((treatment, k)) is not None]
    a, b = (np.array([logs[arm, k] for k in both]) for arm in (baseline, treatment))
    out = Expected(treatment, len(both), len(planned), (len(planned) - len(both)) > MISSING_SHARE * len(planned))
    out.method = method_of(a, b)
    if out.method is None or out.incomplete:
        out.method = None
        return out
    out.estimate, out.p = estimate(out.method, a, b), plain_p(out.method, a, b)
    out.ci95, out.ci90 = (INTERVALS[out.method](a, b, level) for level in (0.95, 0.90))
    out.parts, out.scatter = dict(zip(both, rank_parts(a, b), strict=True)), stdev(b - a)
    return out


def adjust(family: list[Expected]) -> None:
    """Set the adjusted p of a family: step-down over joint swaps from 8 blocks on, Holm for fewer blocks.

    A single comparison is not adjusted.
    """
    tested = [one for one in family if one.p is not None]
    if len(tested) < 2:
        return
    adjusted = step_down(tested) if all(one.blocks >= 8 for one in tested) else holm([one.p for one in tested])
    for one, p in zip(tested, adjusted, strict=True):
        one.p_adjusted = max(p, one.p)


def holm(ps: list[float]) -> list[float]:
    out, floor = [0.0] * len(ps), 0.0
    for rank, k in enumerate(sorted(range(len(ps)), key=lambda k: ps[k])):
        floor = max(floor, min(1.0, (len(ps) - rank) * ps[k]))
        out[k] = floor
    return out


def step_down(tested: list[Expected]) -> list[float]:
    """Return p adjusted by Westfall and Young: z_jb = d_jb / sqrt(sum_b d_jb^2), one sign per block for all j."""
    blocks = sorted({k for one in tested for k in one.parts}, key=str)
    z = []
    for one in tested:
        d = np.array([one.parts.get(k, 0.0) for k in blocks])
        norm = math.sqrt((d**2).sum())
        z.append(d / norm if norm else d)
    reached = np.abs(swaps(len(blocks)) @ np.array(z).T)
    seen = [abs(row.sum()) for row in z]
    order = sorted(range(len(z)), key=lambda j: -seen[j])
    out, floor = [0.0] * len(z), 0.0
    for place, j in enumerate(order):
        floor = max(floor, float(np.mean(reached[:, order[place:]].max(axis=1) >= seen[j] - TINY)))
        out[j] = floor
    return out


def decide(one: Expected, margin: float, higher: bool) -> str:
    """Return the verdict from the 95 and 90 % intervals, the margin and, in a family, the adjusted p."""
    if one.p is None:
        return "invalid"
    m = math.log1p(margin)
    above, below = (end is not None and sign * end > TINY for sign, end in zip((1, -1), one.ci95, strict=True))
    displayed = (above or below) and (one.p_adjusted is None or one.p_adjusted < 0.05)
    inside = None not in one.ci90 and one.ci90[0] > -m + TINY and one.ci90[1] < m - TINY
    if displayed:
        return "small" if inside else "better" if (one.estimate > 0) == higher else "worse"
    return "equivalent" if inside else "undecided"


def total_blocks(one: Expected, margin: float, family: int) -> float:
    """Return the number N of blocks that would lead to a verdict, at most LONG.

    It is the smaller of those to detect the estimate (80 % power; in a family at a threshold divided by its size) and
    to exclude the margin. Both quantiles are Student's with N - 1 degrees of freedom."""
    m, size = math.log1p(margin), abs(one.estimate)

    def needed(distance: float, *quantiles: float) -> float:
        for n in range(2, LONG + 1):
            if distance > 0 and n >= (sum(stats.t.ppf(q, n - 1) for q in quantiles) * one.scatter / distance) ** 2:
                return n
        return math.inf

    return min(needed(size, 1 - 0.025 / family, 0.80), needed(m - size, 0.95))


def table(cells: Cells, baseline: str, margin: float, higher: bool = True) -> list[Expected]:
    """Compare every treatment of `cells` with the baseline, in order of appearance."""
    planned = list(dict.fromkeys(block for _, block in cells))
    names = list(dict.fromkeys(name for name, _ in cells if name != baseline))
    family = [compare(cells, name, baseline, planned) for name in names]
    adjust(family)
    tested = sum(one.p is not None for one in family)
    for one in family:
        one.verdict = decide(one, margin, higher)
        if one.verdict == "undecided" and one.scatter > 1e-12:
            n = total_blocks(one, margin, tested)
            if n <= LONG:
                fewest, most = (max(1, math.ceil(n * f) - one.blocks) for f in RANGE)
                one.more = (fewest, most)
    return family
