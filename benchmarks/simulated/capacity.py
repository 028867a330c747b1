"""Capacities found by a search in every block, compared as loadbook does, and as others do: one search per arm.

The simulated service has a known curve of p99 against rate: `p99 = p99 at rest / (1 - rate / most)`, the objective is
met up to four fifths of `most`, and noise moves `most`. Arms have different names and, unless a case says so, one
capacity. A slot is a probe; the noises are those of `noise.py`, and trial scatter of 2 to 10 %.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TypeVar

import numpy as np

from loadbook.modes.capacity.spec_search import (
    MAX_FAILED_BLOCKS,
    Bracket,
    Exploration,
    RateSearch,
    common_bracket,
    explore,
)
from loadbook.modes.capacity.stats import MOST_MARGIN, capacity_from_margins
from loadbook.stats.compare import MAX_INCOMPLETE_SHARE, MIN_BLOCKS, compare_pairs
from noise import NOISES, Floats, Rng, white
from simulated.check import Row, Simulation, percent
from simulated.two_arms import p_values, pairs_of

TRUE_PER_S, MET_SHARE = 10_000.0, 0.8
Search = TypeVar("Search", Exploration, RateSearch)
Probes = defaultdict[int, list[tuple[float, float]]]
LEVELS = {"2 %": 0.02, "3 %": 0.03, "5 %": 0.05, "10 %": 0.1}
REQUESTS, MLR_TRIALS = 1000, 5  # of a trial, and of a rate before it is judged (MLRsearch)
DIFFERENCE = math.log(1.05)
FALSE_ALARMS = "capacity: false alarms, equal arms"
BY_BRACKET = "capacity: false alarms, equal arms, by the last bracket alone"
COVERAGE = "capacity: the 95 % interval of the ratio covers the truth"
POWER = "capacity: a true 5 % found"
POWER_BY_BRACKET = "capacity: a true 5 % found, by the last bracket alone"
BIAS = "capacity: absolute bias"
COST = "capacity: probes per arm and block"
SCATTER = "capacity: scatter of an arm's capacity in a block"
SCATTER_BY_BRACKET = f"{SCATTER}, by the last bracket alone"
LOST = "capacity: an arm lost by a noisy quarter minute in the first block"
LOST_BY_ONE = "must fail: one exploration of each arm, in the first block only: an arm lost by a noisy quarter minute"
DISTURBED = "capacity: false alarms, equal arms, a noisy quarter minute in the first block"
QUARTER_MINUTE_PROBES, DISTURBED_MARGIN = 4, -0.7  # 20 ms are 40
CONTROL = "capacity: equal arms said to differ by 5 % or more, {}"


def margin(rate: float, capacity: float) -> float:
    """Return the margin of a probe, the logarithm of limit over p99; overload has no p99 that means anything."""
    used = MET_SHARE * rate / capacity
    return math.log((1 - used) / (1 - MET_SHARE)) if used < 0.99 else -MOST_MARGIN


def draw_noise(kind: str, rng: Rng, slots: int) -> Floats:
    """Return the noise (log) of the capacity in each slot of one study."""
    if kind in LEVELS:
        return white(rng, (slots,), LEVELS[kind])
    order = np.zeros((1, slots), dtype=int)
    return np.asarray(NOISES[kind](rng, order))[0]


class Service:
    """The arms of one study, whose probes take one slot each, in the order in which they are asked for."""

    def __init__(self, kind: str, effects: Sequence[float], rng: Rng, slots: int) -> None:
        self.effects, self.noise, self.slot = effects, draw_noise(kind, rng, slots), 0
        self.disturbed = range(0)

    def disturb(self, slot: int) -> None:
        """Let other programs keep the CPUs for the probes of a quarter of a minute: times are long at every rate."""
        self.disturbed = range(slot, slot + QUARTER_MINUTE_PROBES)

    def probe(self, arm: int, rate: float) -> float:
        """Return the margin of the next probe."""
        noise, is_disturbed = self.noise[self.slot % len(self.noise)], self.slot in self.disturbed
        self.slot += 1
        if is_disturbed:
            return DISTURBED_MARGIN + noise
        return margin(rate, TRUE_PER_S * math.exp(self.effects[arm] + noise))


def first_rate(service: Service, rng: Rng) -> float:
    """Return the rate at which explorations begin: half of the smallest closed-loop maximum."""
    return min(TRUE_PER_S * math.exp(e) / MET_SHARE * (1 + rng.normal(0, 0.02)) for e in service.effects) / 2


def in_rounds(service: Service, rng: Rng, begun: Mapping[int, Search]) -> tuple[dict[int, Search], Probes]:
    """Return the ended searches or explorations by arm, made in rounds of one probe each; (rate, margin)s by arm."""
    searches, probes = dict(begun), Probes(list)
    while waiting := [arm for arm in searches if searches[arm].next_rate is not None]:
        for number in rng.permutation(len(waiting)):
            arm = waiting[number]
            rate = searches[arm].next_rate
            assert rate is not None
            found = service.probe(arm, rate)
            probes[arm].append((rate, found))
            searches[arm] = searches[arm].after(found >= 0, found if -MOST_MARGIN < found < 0 else None)
    return searches, probes


def explored_bracket(service: Service, rng: Rng) -> Bracket:
    """Return the bracket of the first block."""
    starts = dict.fromkeys(range(len(service.effects)), first_rate(service, rng))
    explored = explore(starts, lambda begun: in_rounds(service, rng, begun)[0])
    return common_bracket((), [one.bracket for one in explored.values() if one.bracket])


def block_capacities(
    service: Service, bracket: Bracket, arms: int, rng: Rng
) -> tuple[list[float], list[list[tuple[float, float]]]]:
    """Return the middle of each arm's last bracket in one block, searched in lockstep, and its (rate, margin)s."""
    searches, probes = in_rounds(service, rng, dict.fromkeys(range(arms), RateSearch(bracket)))
    return [searches[arm].bracket.middle for arm in range(arms)], [probes[arm] for arm in range(arms)]


def study(kind: str, effects: Sequence[float], blocks: int, rng: Rng) -> tuple[Floats, Floats, float]:
    """Return the log capacities (arms, blocks) by margins, by the last brackets, and the probes per arm and block."""
    arms = len(effects)
    service = Service(kind, effects, rng, blocks * arms * 8)
    bracket = explored_bracket(service, rng)
    found: list[list[float]] = [[] for _ in range(arms)]
    by_bracket, count = np.empty((arms, blocks)), 0
    for block in range(blocks):
        middles, probes = block_capacities(service, bracket, arms, rng)
        by_bracket[:, block] = np.log(middles)
        for arm in range(arms):
            found[arm].append(capacity_from_margins(*zip(*probes[arm], strict=True)))
            count += len(probes[arm])
        bracket = common_bracket(found)
    return np.log(found), by_bracket, count / arms / blocks


def studies_of(
    kind: str, effects: Sequence[float], blocks: int, rng: Rng, studies: int
) -> tuple[tuple[Floats, Floats], float]:
    """Return the log capacities (studies, arms, blocks) by margins and by brackets; probes per arm and block."""
    drawn = [study(kind, effects, blocks, rng) for _ in range(studies)]
    margins, brackets, counts = zip(*drawn, strict=True)
    return (np.array(margins), np.array(brackets)), float(np.mean(counts))


def disturbed_study(blocks: int, again: bool, rng: Rng) -> tuple[Floats, Floats]:
    """Return the log capacities of two equal arms (NaN where none was found), a quarter minute of the first disturbed.

    `again`: an arm that no rate passed is explored once more, and in a later block, as loadbook does. Otherwise such an
    arm is lost.
    """
    service = Service("3 %", [0.0, 0.0], rng, blocks * 2 * 12)
    service.disturb(int(rng.integers(0, 6)))
    known: dict[int, list[float]] = {0: [], 1: []}
    found, failed = np.full((2, blocks), np.nan), [0, 0]
    for block in range(blocks):
        arms = [arm for arm in known if failed[arm] < (MAX_FAILED_BLOCKS if again else 1)]
        starts = {arm: first_rate(service, rng) for arm in arms if not known[arm]}
        explored = (
            explore(starts, lambda begun: in_rounds(service, rng, begun)[0])
            if again
            else in_rounds(service, rng, {arm: Exploration(rate) for arm, rate in starts.items()})[0]
        )
        lost = [arm for arm, one in explored.items() if one.bracket is None]
        for arm in lost:
            failed[arm] += 1
        arms = [arm for arm in arms if arm not in lost]
        brackets = [one.bracket for one in explored.values() if one.bracket]
        if not arms:
            continue
        bracket = common_bracket(known.values(), brackets)
        searches, probes = in_rounds(service, rng, dict.fromkeys(arms, RateSearch(bracket)))
        for arm, search in searches.items():
            if search.bound is None:
                capacity = capacity_from_margins(*zip(*probes[arm], strict=True))
                known[arm].append(capacity)
                found[arm, block] = math.log(capacity)
    return found[0], found[1]


def noisy_quarter_minute(blocks: int, again: bool, rng: Rng, studies: int) -> tuple[float, float]:
    """Return how often an arm has too few blocks to be compared, and how often the arms are said to differ."""
    lost, differ = [], []
    for _ in range(studies):
        base, other = disturbed_study(blocks, again, rng)
        both = np.isfinite(base) & np.isfinite(other)
        lost.append(1 - both.mean() > MAX_INCOMPLETE_SHARE or both.sum() < MIN_BLOCKS)
        comparison = compare_pairs(pairs_of(base[both], other[both]))
        differ.append(not lost[-1] and comparison.p is not None and comparison.p <= 0.05)
    return percent(lost), percent(differ)


def claims(capacities: Floats) -> float:
    """Return how often the first two arms are said to differ."""
    return percent(p_values(capacities[:, 0], capacities[:, 1]) <= 0.05)


def equal_arms(kind: str, others: Sequence[float], blocks: int, rng: Rng, studies: int) -> tuple[float, float, float]:
    """Return how often two equal arms are said to differ, both ways, and the probes; `others` are more arms."""
    both, probes = studies_of(kind, [0.0, 0.0, *others], blocks, rng, studies)
    return claims(both[0]), claims(both[1]), probes


def unequal_arms(kind: str, blocks: int, rng: Rng, studies: int) -> tuple[float, ...]:
    """Return power, coverage and bias (%) where an arm sustains 5 % more; power by brackets; scatter both ways (%)."""
    both, _ = studies_of(kind, [0.0, DIFFERENCE], blocks, rng, studies)
    covered = []
    for base, other in zip(both[0][:, 0], both[0][:, 1], strict=True):
        interval = compare_pairs(pairs_of(base, other)).ci95
        covered.append(interval is not None and interval[0] <= math.expm1(DIFFERENCE) <= interval[1])
    bias = float(np.median(both[0][:, 0])) - math.log(TRUE_PER_S) - typical_noise(kind, rng)
    scatters = [100 * float(values[:, 0].std(axis=1, ddof=1).mean()) for values in both]
    return claims(both[0]), percent(covered), 100 * abs(math.expm1(bias)), claims(both[1]), *scatters


def typical_noise(kind: str, rng: Rng) -> float:
    """Return the median of the noise: a rate that half of the probes sustain is moved by it."""
    return float(np.median([draw_noise(kind, rng, 100) for _ in range(200)]))


def one_bisection(service: Service, arm: int, rng: Rng) -> float:
    """Return the log capacity that one search from 0.5 to 2 times the truth finds, by sign."""
    search = RateSearch(Bracket(TRUE_PER_S / 2, TRUE_PER_S * 2))
    while search.next_rate is not None:
        search = search.after(service.probe(arm, search.next_rate) >= 0)
    return math.log(search.bracket.middle)


def one_isotonic_fit(service: Service, arm: int, rng: Rng) -> float:
    """Return the log capacity by an isotonic fit of 20 margins of rates in rising order, as a sweep measures them."""
    rates = TRUE_PER_S * np.geomspace(0.7, 1.4, 20)
    return math.log(capacity_from_margins(list(rates), [service.probe(arm, rate) for rate in rates]))


def one_mlr_search(service: Service, arm: int, _: Rng) -> float:
    """Return the log capacity by MLRsearch 1.2.1 (RFC 9971), which judges a rate by several trials, half of them good.

    It fails less often than one bisection, and gives no probability either.
    """
    from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

    class Measurer(AbstractMeasurer):
        def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
            lost = 0 if service.probe(arm, intended_load) >= 0 else REQUESTS
            return MeasurementResult(intended_duration, intended_load, offered_count=REQUESTS, loss_count=lost)

    config = Config()
    config.min_load, config.max_load = TRUE_PER_S / 2, TRUE_PER_S * 2
    config.goals = [SearchGoal(loss_ratio=0.01, relative_width=0.015, duration_sum=MLR_TRIALS)]
    (found,) = MultipleLossRatioSearch(config).search(Measurer(), debug=lambda _: None).values()
    return math.log(float(found.conditional_throughput))


def phantoms(method: Callable[[Service, int, Rng], float], kind: str, rng: Rng, studies: int) -> tuple[float]:
    """Return how often two equal arms, searched one after the other, come out 5 % or more apart."""
    differences = []
    for _ in range(studies):
        service = Service(kind, [0.0, 0.0], rng, 512)
        differences.append(method(service, 1, rng) - method(service, 0, rng))
    return (percent(np.abs(differences) >= DIFFERENCE),)


def simulations() -> Iterator[Simulation]:
    """Yield every simulation of capacities."""
    for kind in (*LEVELS, "ar1+drift", "stalls"):
        for blocks, others in ((6, ()), (8, ()), (12, ()), (12, (math.log(0.25),))):
            case = _case(kind, blocks) + (", a third arm sustains a quarter" if others else "")
            high = 7.0 if blocks < 8 else 6.5
            rows = Row(FALSE_ALARMS, case, 2.5, high), Row(BY_BRACKET, case), Row(COST, case)
            yield Simulation(partial(equal_arms, kind, others, blocks), rows)
    for kind, least in (("3 %", 80), ("5 %", -math.inf), ("ar1+drift", 80), ("stalls", 80)):
        case = _case(kind, 12)
        rows = Row(POWER, case, least), Row(COVERAGE, case, 94, 98), Row(BIAS, case, high=2)
        more = (POWER_BY_BRACKET, SCATTER, SCATTER_BY_BRACKET)
        yield Simulation(partial(unequal_arms, kind, 12), (*rows, *(Row(claim, case) for claim in more)))
    for blocks in (5, 8, 12):
        case = f"trials scatter by 3 %, n={blocks}"
        yield Simulation(
            partial(noisy_quarter_minute, blocks, True),
            (Row(LOST, case, high=2), Row(DISTURBED, case, high=7.0 if blocks < 8 else 6.5)),
        )
        yield Simulation(
            partial(noisy_quarter_minute, blocks, False),
            (Row(LOST_BY_ONE, case, low=10), Row(f"{DISTURBED}, explored once", case)),
        )
    methods: dict[str, Callable[[Service, int, Rng], float]] = {
        "one bisection each": one_bisection,
        "one isotonic fit each": one_isotonic_fit,
    }
    if find_spec("MLRsearch"):  # pip install -e .[bench]
        methods["one MLRsearch each"] = one_mlr_search
    for name, method in methods.items():
        for kind, scatter in LEVELS.items():
            row = Row(
                CONTROL.format(name),
                f"trials scatter by {kind}",
                20 if scatter >= 0.05 and method is not one_mlr_search else -math.inf,
            )
            yield Simulation(partial(phantoms, method, kind), (row,))


def _case(kind: str, blocks: int) -> str:
    return f"{'trials scatter by ' if kind in LEVELS else ''}{kind}, n={blocks}"
