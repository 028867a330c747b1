"""Rates of false and of correct alarms and change points in the history of a study, in % of simulated histories.

    python benchmarks/history_rates.py [--histories 2000]

A history has 5 to 100 runs of 10 blocks each, whose effects scatter between runs as much as within them (standard error
of a run 0.4 %, standard deviation between runs 0.4 %). The alarm compares the newest run with the level since the last
earlier change; the rate of correct alarms is for a run that is worse by one margin of 2 %. The exit code is 1 if, with
normal scatter, false alarms or false changes exceed the stated rate by more than three standard errors of the
simulation.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from loadbook.analyses.history.compute import ALARM_RATE, CHANGE_RATE, RunEffect, RunSummary, effect_series
from loadbook.analyses.history.levels import MIN_SEGMENT_RUNS, LogEffect, assess_newest, find_changes

OWN, BETWEEN, BLOCKS, MARGIN = 0.004, 0.004, 10, 0.02
RUNS = (5, 10, 30, 100)
COMPARISONS = 4
Rng = np.random.Generator


def _mixed(rng: Rng, runs: int) -> np.ndarray:
    return np.asarray(rng.normal(size=runs) + 5 * (rng.random(runs) < 0.03) * rng.choice([-1, 1], runs))


# how runs scatter, with a standard deviation of 1, and the rate of alarms that they must keep (inf: none is stated)
SHAPES: dict[str, tuple[Callable[[Rng, int], np.ndarray], float]] = {
    "normally": (lambda rng, runs: rng.normal(size=runs), ALARM_RATE),
    "normally, runs of 5 to 24 blocks": (lambda rng, runs: rng.normal(size=runs), ALARM_RATE),
    "heavy tails (t, 5 degrees)": (lambda rng, runs: rng.standard_t(5, runs) / math.sqrt(5 / 3), math.inf),
    "one run in 30 lies far off": (_mixed, math.inf),
    "two states of the laboratory": (
        lambda rng, runs: 0.4 * rng.normal(size=runs) + 2 * (rng.random(runs) < 0.3),
        math.inf,
    ),
}


class Rates(NamedTuple):
    """Shares of histories with false alarms and false changes, and with detected ones: simulated and predicted."""

    alarms: float
    shown: float
    found: float
    foretold: float
    located: float


def history(rng: Rng, runs: int, shape: str) -> list[LogEffect]:
    """Return for each run the log of its ratio to the baseline, its estimated standard error, and its blocks."""
    blocks = rng.integers(5, 25, runs) if "5 to 24" in shape else np.full(runs, BLOCKS)
    own = OWN * np.sqrt(BLOCKS / blocks)
    values = SHAPES[shape][0](rng, runs) * np.sqrt(own**2 + BETWEEN**2)
    known = own * np.sqrt(rng.chisquare(blocks - 1) / (blocks - 1))
    return list(zip(values.tolist(), known.tolist(), blocks.tolist(), strict=True))


def rates(runs: int, shape: str, histories: int, seed: int = 1, rate: float = ALARM_RATE) -> Rates:
    """Return the rates in this number of simulated histories; `rate` is the intended rate of false alarms."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(histories):
        told = history(rng, runs, shape)
        logs = [(log, error) for log, error, _ in told]
        edges = find_changes(logs[:-1], CHANGE_RATE)
        past = told[edges[-1] if edges else 0 : -1]
        (value, error, blocks), loss = told[-1], math.log1p(-MARGIN)
        still, worse = (
            assess_newest(past, newest, better="higher", rate=rate, margin=MARGIN)
            for newest in ((value, error, blocks), (value + loss, error, blocks))
        )
        moved = [(v + loss * (k >= runs // 2), e) for k, (v, e) in enumerate(logs)]
        seen.append((
            bool(still and still.raised), bool(find_changes(logs, CHANGE_RATE)), bool(worse and worse.raised),
            worse.power if worse else 0.0, any(abs(k - runs // 2) <= 1 for k in find_changes(moved, CHANGE_RATE)),
        ))  # fmt: skip
    return Rates(*np.mean(np.array(seen, float), axis=0).tolist())


def family(runs: int, histories: int, seed: int = 2) -> tuple[float, float]:
    """Return the shares of histories of several comparisons with any false alarm, and with any false change.

    The comparisons share a baseline: half of their variance is in common.
    """
    rng, alarms, shown = np.random.default_rng(seed), 0, 0
    for _ in range(histories):
        common = rng.normal(size=runs)
        logs = [history(rng, runs, "normally") for _ in range(COMPARISONS)]
        seen = [
            RunSummary(str(k), float(k), 0, tuple(_effect(str(c), own[k], common[k]) for c, own in enumerate(logs)))
            for k in range(runs)
        ]
        found = effect_series(seen, "higher", MARGIN)
        alarms += any(course.alarm and course.alarm.raised for course in found)
        shown += any(course.changed_segments for course in found)
    return alarms / histories, shown / histories


def _effect(name: str, log: LogEffect, common: float) -> RunEffect:
    """Return the result of a run: its effect, and an interval by Student's t."""
    from scipy.special import stdtrit

    value = (log[0] + common * math.sqrt(OWN**2 + BETWEEN**2)) / math.sqrt(2)
    half = float(stdtrit(BLOCKS - 1, 0.975)) * log[1]
    ends = (math.expm1(value - half), math.expm1(value + half))
    return RunEffect(name, name, "treatment", "equivalent", math.expm1(value), ends, 0.95, BLOCKS)


def too_many(share: float, rate: float, histories: int, errors: float = 3.0) -> bool:
    """Return whether `share` exceeds `rate` by more than `errors` standard errors of this number of histories."""
    return share > rate + errors * math.sqrt(rate * (1 - rate) / histories)


def rows(histories: int) -> Iterator[tuple[str, bool]]:
    """Yield (row of the table, whether it exceeds the stated rate)."""
    for shape, (_, rate) in SHAPES.items():
        for runs in RUNS:
            found = rates(runs, shape, histories)
            located = f"{100 * found.located:.0f}" if runs >= 2 * MIN_SEGMENT_RUNS else "–"
            shares = [f"{100 * share:.1f}" for share in (found.alarms, found.shown)]
            shares += [f"{100 * share:.0f}" for share in (found.found, found.foretold)]
            yield _row([shape, str(runs), *shares, located]), _breaks(found.alarms, found.shown, histories, rate)
    for runs in RUNS:
        alarms, shown = family(runs, histories // 2)
        cells = [f"normally, any of {COMPARISONS} comparisons", str(runs), f"{100 * alarms:.1f}", f"{100 * shown:.1f}"]
        yield _row([*cells, "–", "–", "–"]), _breaks(alarms, shown, histories // 2, ALARM_RATE)


def _breaks(alarms: float, shown: float, histories: int, rate: float) -> bool:
    return rate < 1 and (too_many(alarms, rate, histories) or too_many(shown, CHANGE_RATE, histories))


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


HEADS = ["runs scatter", "runs", "false alarms", "a change shown, none there", "−2 % found", "foretold", "change found"]


def main() -> int:
    """Print the table; return 1 if a stated rate is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=2000)
    histories, failed = parser.parse_args().histories, False
    print(f"{histories:,} histories each, in %; stated: alarms {ALARM_RATE:.0%}, changes at most {CHANGE_RATE:.0%}")
    print(_row(HEADS), _row(["---"] * len(HEADS)), sep="\n")
    for row, breaks in rows(histories):
        print(row, flush=True)
        failed |= breaks
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
