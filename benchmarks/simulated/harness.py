"""The check of the A/A arm: how often it is narrow enough in a quiet laboratory, and how often in one too noisy.

The margin decides whether it passes; a third of a known effect is the limit for build gates and claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from loadbook.stats.compare import compare_pairs
from loadbook.stats.verdict import KNOWN_EFFECT_PART, aa_state, decide_verdict
from noise import Rng
from simulated.check import Row, Simulation, percent
from simulated.two_arms import pairs_of

AA_P, KNOWN_LOSS, SMALL_MARGIN = 0.01, 0.25, 0.02
QUIET = "A/A arm does not pass though the laboratory is quiet"
NOISY = "A/A arm passes though the laboratory is too noisy"
MIDDLE = "A/A arm does not pass"


def aa_arms(sd: float, blocks: int, half_width_limit: float, rng: Rng, studies: int) -> tuple[float]:
    """Return how often an A/A arm passes whose trials scatter by `sd`."""
    states = []
    for base, other in zip(*rng.normal(0, sd, (2, studies, blocks)), strict=True):
        verdict = decide_verdict(compare_pairs(pairs_of(base, other)), SMALL_MARGIN)
        states.append(aa_state(verdict, AA_P, half_width_limit))
    return (percent(np.array(states) == "passed"),)


def not_passed(sd: float, blocks: int, half_width_limit: float, rng: Rng, studies: int) -> tuple[float]:
    """Return how often it does not."""
    return (100 - aa_arms(sd, blocks, half_width_limit, rng, studies)[0],)


def simulations() -> Iterator[Simulation]:
    """Yield the arms: `limit` is a third of a known effect of 25 %, or a margin of 2 %."""
    known = KNOWN_LOSS / KNOWN_EFFECT_PART
    for sd, blocks in ((0.01, 6), (0.02, 6), (0.02, 10), (0.03, 10), (0.05, 20)):
        yield Simulation(partial(not_passed, sd, blocks, known), (Row(QUIET, _case(sd, blocks, True), high=2.5),))
    for sd, blocks in ((0.005, 10), (0.01, 20)):
        yield Simulation(
            partial(not_passed, sd, blocks, SMALL_MARGIN), (Row(QUIET, _case(sd, blocks, False), high=2.5),)
        )
    for sd, blocks, has_control in ((0.05, 10, True), (0.1, 20, True), (0.01, 10, False), (0.02, 10, False)):
        limit = known if has_control else SMALL_MARGIN
        yield Simulation(partial(not_passed, sd, blocks, limit), (Row(MIDDLE, _case(sd, blocks, has_control)),))
    for sd, blocks, has_control in ((0.2, 6, True), (0.2, 10, True), (0.3, 20, True), (0.05, 10, False)):
        limit = known if has_control else SMALL_MARGIN
        yield Simulation(partial(aa_arms, sd, blocks, limit), (Row(NOISY, _case(sd, blocks, has_control), high=2.5),))


def _case(sd: float, blocks: int, has_control: bool) -> str:
    limit = "known effect 25 %" if has_control else "no control, margin 2 %"
    return f"trials scatter by {100 * sd:g} %, n={blocks}, {limit}"
