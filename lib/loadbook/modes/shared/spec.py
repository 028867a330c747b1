"""Shared execution: whether a study's treatments can share one load generator, and the turns of their requests.

In a shared block all treatments run at once, and one generator sends the requests of all of them at an even rate. The
requests of each treatment come in slices, in a new random order every round, or every request goes to another one. The
clock of the generator never stops, so latencies and open loads can be compared.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from loadbook.modes.interleaved.spec import host_reasons
from loadbook.study.model import Study
from loadbook.study.workload import Workload

# load generators that send the requests of several targets in a given order
SHARING_TOOLS = ("k6", "vegeta")
BY_SLICE, BY_REQUEST = "slice", "request"
# property of a log with one arm's requests: the least time from place to start, of the requests of all arms
LEAST_LATENESS = "least_lateness_us"
SCHEDULE_FILE = "schedule"  # with the turns of all arms, in the folder of a load and of a trial
SLICE_S = 0.05
# fields of the load in which treatments may differ
OWN_FIELDS = frozenset({"path"})


class TurnLengths(NamedTuple):
    """Turns of a block: `slice_s` is the length of a slice in seconds, None if every request goes to another arm.

    `rounds` is how often each arm has a turn, at least 1; of turns by request, with one generator.
    """

    slice_s: float | None
    rounds: int


def turns_of_block(study: Study, block: int, workload: Workload) -> TurnLengths:
    """Return the turns of a block (1, 2, ...): by request, or slices of the study's lengths in turn.

    Slices are shortened so that each arm has a whole number of them in its `duration_s`.
    """
    duration_s, rate_per_s = workload.duration_s, workload.rate_per_s or 1.0
    if study.turns == BY_REQUEST:
        return TurnLengths(None, max(1, math.ceil(duration_s * rate_per_s)))
    wanted_s = study.slices[(block - 1) % len(study.slices)] if study.slices else SLICE_S
    rounds = max(1, math.ceil(duration_s / wanted_s - 1e-9))
    return TurnLengths(duration_s / rounds, rounds)


def draw_turns(
    arms: Sequence[int], lengths: TurnLengths, rate_per_s: float, duration_s: float, seed: str
) -> list[tuple[int, int]]:
    """Return (arm, requests) in their order for one generator, drawn from `seed`.

    Each arm has one turn in every round. The places of requests are at an even rate: request n is due at n / rate.
    Slices of several generators begin and end at the same times, whatever their rates. `duration_s` is the load of an
    arm, at the whole rate; by request it takes as many times as long as there are arms.
    """
    draw = random.Random(seed)
    if lengths.slice_s is None:
        rounds = max(1, math.ceil(duration_s * rate_per_s))
        return [(arm, 1) for _ in range(rounds) for arm in draw.sample(arms, len(arms))]
    order = [arm for _ in range(lengths.rounds) for arm in draw.sample(arms, len(arms))]
    edges = [math.ceil(number * lengths.slice_s * rate_per_s - 1e-9) for number in range(len(order) + 1)]
    return [(arm, last - first) for arm, first, last in zip(order, edges, edges[1:], strict=False)]


def active_s(lengths: TurnLengths, arms: int, duration_s: float) -> float:
    """Return the seconds in which an arm is under load: its slices, or by request all the time."""
    return duration_s if lengths.slice_s is not None else arms * duration_s


def rate_text(study: Study, arms: int | None, rate_per_s: float) -> str:
    """Return which rate an arm has: "the whole 1,000/s in its slices", or "its share of 1,000/s all the time, 250/s".

    Without the number of `arms`, the share is not told as a number.
    """
    whole = f"{rate_per_s:,g}/s"
    if study.turns == BY_REQUEST:
        share = f", {rate_per_s / arms:,.4g}/s" if arms else ""
        return f"its share of {whole} all the time{share}"
    return f"the whole {whole} in its slices"


def plain_reasons(study: Study, treatments: Sequence[str]) -> list[str]:
    """Return the reasons in the study file why these treatments cannot share one generator; empty if they can."""
    return [
        *_question_reasons(study, treatments),
        *_load_reasons([study.workload_of(name) for name in treatments]),
        *host_reasons(study, treatments),
    ]


def _question_reasons(study: Study, treatments: Sequence[str]) -> Iterator[str]:
    if study.capacity:
        yield "a search for capacity has loads at a rate of their own for every treatment"
    if len(treatments) < 2:
        yield "there is only one treatment"


def _load_reasons(loads: Sequence[Workload]) -> Iterator[str]:
    if tools := sorted({load.tool for load in loads} - set(SHARING_TOOLS)):
        can = ", ".join(SHARING_TOOLS)
        yield f"{', '.join(tools)} cannot send the requests of several treatments by turns ({can} can)"
    if any(load.model != "open" for load in loads):
        yield "the load is closed: the next request waits for an answer, so that there is no schedule to share"
    if plans := sorted({load.plan for load in loads if load.plan}):
        yield f"the load is that of a file, {plans[0]}, whose requests have an order of their own"
    if any(load.arrivals != "even" for load in loads):
        yield "arrivals are not even"
    if any(load.requests is not None for load in loads):
        yield "the load ends after a number of requests"
    fields = [load.model_dump(exclude=set(OWN_FIELDS)) for load in loads]
    if differing := sorted({key for own in fields for key in own if own[key] != fields[0][key]}):
        yield f"treatments differ in {differing[0]} of their load, and one generator has one"
