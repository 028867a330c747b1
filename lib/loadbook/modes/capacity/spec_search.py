"""Search for the capacity of several arms: the rate that each of them just sustains within an objective.

A probe is one trial at a constant rate, which passes or fails. A block searches for the capacity of every arm: all arms
begin with one bracket of rates and halve it, on a logarithmic scale, in rounds of one probe each. The bracket of a
block depends on the arms' capacities in the blocks before, but not on which arm had which: had two equal arms swapped
their names in a block, every bracket would be the same. Equal arms therefore stay exchangeable within blocks, which is
all that the test of their capacities assumes.

An arm whose capacity is not known from a block before is explored first: it begins at one rate, which is raised until a
probe fails, or lowered until one passes. A host that others keep busy for a moment fails every rate, so an arm that no
rate passed is explored once more in the same block, and again in a later one.

An arm that passes (or fails) every probe of its bracket goes on in one above (or below) it, at most `MAX_MOVES` times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal, NamedTuple, TypeVar

RESOLUTION = math.log(1.015)  # of rates: the last bracket is at most so wide
MARGIN = math.log(1.25)  # of a bracket beyond the capacities of the blocks before
RAISE = 1.5  # from probe to probe of an exploration
MAX_STEPS = 12  # of an exploration: a factor of 130, up or down
FLAT_MARGIN = 0.1  # two margins that differ by less are alike: the times of an idle service, which no rate lowers
MAX_MOVES = 3
MAX_EXPLORATIONS = 2  # of an arm in a block, while no rate passes
MAX_FAILED_BLOCKS = 2  # whose explorations of an arm failed: then it is not searched any more
Arm = TypeVar("Arm")


class Bracket(NamedTuple):
    """Two rates, 1/s: an arm is expected to sustain the lower and not the higher."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The geometric mean, 1/s."""
        return math.sqrt(self.low * self.high)

    @property
    def width(self) -> float:
        """The logarithm of the ratio of the rates."""
        return math.log(self.high / self.low)

    def moved_up(self, width: float) -> Bracket:
        """Return the bracket of this width just above."""
        return Bracket(self.high, self.high * math.exp(width))

    def moved_down(self, width: float) -> Bracket:
        """Return the bracket of this width just below."""
        return Bracket(self.low * math.exp(-width), self.low)


@dataclass(frozen=True)
class Exploration:
    """Exploration of one arm: `next_rate` is the rate of the next probe, 1/s, `after` the exploration after it.

    Ends when it has seen a rate that passes and one that fails, if a lower rate misses the objective by as much as the
    rate before, or after `MAX_STEPS` probes.
    """

    start: float
    passed: float | None = None  # the highest rate that did
    failed: float | None = None  # the lowest rate that did
    steps: int = 0
    margin: float | None = None  # of the lowest rate that failed
    is_flat: bool = False  # whether the last two rates that failed had like margins

    @property
    def is_finished(self) -> bool:
        """Whether there will be no further probe."""
        return self.bracket is not None or self.steps >= MAX_STEPS or self.is_flat

    @property
    def bracket(self) -> Bracket | None:
        """The bracket of this arm's capacity; None if no rate passed, or none failed."""
        return Bracket(self.passed, self.failed) if self.passed is not None and self.failed is not None else None

    @property
    def next_rate(self) -> float | None:
        """The rate of the next probe, 1/s; None at the end."""
        if self.is_finished:
            return None
        if self.passed is not None:
            return self.passed * RAISE
        return self.start if self.failed is None else self.failed / RAISE

    def after(self, passes: bool, margin: float | None = None) -> Exploration:
        """Return the exploration after a probe at `next_rate`, which met the objective or not (`passes`).

        `margin` is the logarithm of the limit over the time of the objective's share; None if times are not known.
        """
        rate = self.next_rate
        if passes:
            return replace(self, passed=rate, steps=self.steps + 1)
        is_flat = margin is not None and self.margin is not None and abs(margin - self.margin) < FLAT_MARGIN
        return replace(self, failed=rate, steps=self.steps + 1, margin=margin, is_flat=is_flat)


def explore(
    starts: Mapping[Arm, float], in_rounds: Callable[[dict[Arm, Exploration]], Mapping[Arm, Exploration]]
) -> dict[Arm, Exploration]:
    """Return the finished explorations of arms from their first rates (1/s), at most `MAX_EXPLORATIONS` of each.

    `in_rounds` makes the probes of explorations, in rounds of one probe for each, until all have ended. Those in which
    no rate passed are repeated.
    """
    explored: dict[Arm, Exploration] = {}
    waiting = list(starts)
    for _ in range(MAX_EXPLORATIONS):
        if waiting:
            explored |= in_rounds({arm: Exploration(starts[arm]) for arm in waiting})
        waiting = [arm for arm in waiting if explored[arm].is_finished and explored[arm].passed is None]
    return explored


@dataclass(frozen=True)
class OneRate:
    """One probe of an arm at a rate that is given: in place of a search, to certify the rate."""

    next_rate: float | None

    def after(self, passes: bool, margin: float | None = None) -> OneRate:
        """Return the end: no further probe."""
        return OneRate(None)


@dataclass(frozen=True)
class RateSearch:
    """Search of one arm in one block: `next_rate` is the rate of the next probe, `after` the search after it.

    Ends with a bracket no wider than `RESOLUTION`; the capacity is its middle.
    """

    bracket: Bracket
    passed: bool = False  # whether any probe in this bracket or at its edges did
    failed: bool = False
    moves: int = 0
    probes: tuple[tuple[float, bool], ...] = ()

    @property
    def is_finished(self) -> bool:
        """Whether the bracket is narrow enough."""
        return self.bracket.width <= RESOLUTION * (1 + 1e-9)

    @property
    def next_rate(self) -> float | None:
        """The rate of the next probe, 1/s; None at the end."""
        return None if self.is_finished else self.bracket.middle

    def after(self, passes: bool, margin: float | None = None) -> RateSearch:
        """Return the search after a probe at `next_rate`; its margin is of no interest here."""
        rate = self.bracket.middle
        bracket = Bracket(rate, self.bracket.high) if passes else Bracket(self.bracket.low, rate)
        new = replace(
            self,
            bracket=bracket,
            passed=self.passed or passes,
            failed=self.failed or not passes,
            probes=(*self.probes, (rate, passes)),
        )
        one_sided = not (new.passed and new.failed)
        if new.is_finished and one_sided and self.moves < MAX_MOVES:
            moved = bracket.moved_up(MARGIN) if passes else bracket.moved_down(MARGIN)
            # one edge of the new bracket is the rate that just passed, or failed
            return replace(new, bracket=moved, passed=passes, failed=not passes, moves=self.moves + 1)
        return new

    @property
    def bound(self) -> Literal["at least", "at most"] | None:
        """`at least` if all rates of the last bracket passed, `at most` if all failed.

        None before the end, or if some passed and some failed: then `capacity_per_s` is an estimate.
        """
        if not self.is_finished or (self.passed and self.failed):
            return None
        return "at least" if self.passed else "at most"

    @property
    def capacity_per_s(self) -> float | None:
        """The rate that the arm just sustains in this block, 1/s; None before the end."""
        return self.bracket.middle if self.is_finished else None


def common_bracket(capacities: Iterable[Sequence[float]], explored: Iterable[Bracket] = ()) -> Bracket:
    """Return the bracket of a block for all arms; at least one capacity or one explored bracket is required.

    Parameters
    ----------
    capacities : those of each arm in the blocks before, 1/s.
    explored : brackets of the arms that were explored in this block.
    """
    medians, brackets = [median(values) for values in capacities if values], list(explored)
    if medians:
        brackets.append(Bracket(min(medians) / math.exp(MARGIN), max(medians) * math.exp(MARGIN)))
    return Bracket(min(bracket.low for bracket in brackets), max(bracket.high for bracket in brackets))
