"""What a run tells whose A/A arm is wider than the margin: only differences that lie beyond that arm's interval.

Arms of one configuration may differ by where their processes and memory lie: each arm of a study has an offset of its
own. Without the rule every difference would count that an interval shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from loadbook.stats import results
from loadbook.stats.compare import compare_pairs
from loadbook.stats.verdict import aa_state, decide_verdict, limit_to_resolution
from noise import MARGIN, Rng
from simulated.check import Row, Simulation, percent
from simulated.two_arms import pairs_of

AA_P = 0.01
WRONG = "A/A arm wider than the margin: a difference told that is not there"
FOUND = "A/A arm wider than the margin: a true 10 or 14 % found"
OLD = "must fail: every shown difference, arms with offsets beside a wide A/A arm: wrong"
QUIET = results.ErrorSummary("aa", 0, 0, 0, 0, {})


def told(sd: float, offset: float, blocks: int, effect: float, rng: Rng, studies: int) -> tuple[float, float]:
    """Return how many studies tell a difference beside a wide A/A arm, by the resolution and without it.

    `sd` is the scatter of trials, `offset` that of arms, `effect` the true log ratio.
    """
    within, shown = [], []
    arms = rng.normal(0, sd, (3, studies, blocks)) + rng.normal(0, offset, (3, studies, 1))
    for base, again, other in zip(*arms, strict=True):
        check = decide_verdict(compare_pairs(pairs_of(base, again)), MARGIN)
        state = aa_state(check, AA_P, MARGIN)
        verdict = decide_verdict(compare_pairs(pairs_of(base, other + effect)), MARGIN)
        row = results.AnalysisRow("aa", "aa", "aa", None, None, blocks, blocks, check, QUIET, check_state=state)
        limited = limit_to_resolution(verdict, results.find_resolution([row]))
        wide, kinds = state == "inconclusive", ("better", "worse")
        within.append(wide and limited.kind in kinds)
        shown.append(wide and verdict.kind in kinds)
    return percent(within), percent(shown)


def simulations() -> Iterator[Simulation]:
    """Yield laboratories whose A/A arm is mostly wider than the margin of 2 %."""
    for sd, offset, blocks in ((0.03, 0.0, 6), (0.05, 0.0, 10), (0.03, 0.01, 6), (0.05, 0.02, 10), (0.05, 0.02, 20)):
        case = f"trials scatter by {100 * sd:g} %, arms by {100 * offset:g} %, n={blocks}"
        limits = {"low": 6.0} if offset and blocks > 6 else {}
        rows = (
            Row(WRONG, case, high=5),
            Row(OLD if limits else "every shown difference beside a wide A/A arm: wrong", case, **limits),
        )
        yield Simulation(partial(told, sd, offset, blocks, 0.0), rows)
    for sd, effect, blocks in ((0.03, 0.14, 6), (0.05, 0.14, 10), (0.05, 0.10, 20)):
        case = f"trials scatter by {100 * sd:g} %, {100 * effect:g} %, n={blocks}"
        yield Simulation(
            partial(told, sd, 0.0, blocks, effect),
            (Row(FOUND, case, low=70), Row(f"{FOUND}, by every shown difference", case)),
        )
