"""Shared execution: whether a study's treatments can share one load generator, and the turns of their requests.

In a shared block all treatments run at once, and one generator sends the requests of all of them at an even rate. The
requests of each treatment come in slices, in a new random order every round, or every request goes to another one. The
clock of the generator never stops, so latencies and open loads can be compared.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
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
MIN_REQUESTS = 2  # in a slice
# fields of the load in which treatments may differ: the URL, and how the page is checked before and after the load
OWN_FIELDS = frozenset({"scheme", "path", "expect_status", "expect_bytes"})


class TurnLengths(NamedTuple):
    """Turns of a block: `slice_s` is the length of a slice in seconds, None if every request goes to another arm.

    `rounds` is how often each arm has a slice, at least 1.
    """

    slice_s: float | None
    rounds: int = 1


def turns_of_block(study: Study, block: int, workload: Workload) -> TurnLengths:
    """Return the turns of a block (1, 2, ...): by request, or slices of the study's lengths in turn.

    Slices are shortened so that each arm has a whole number of them in its `duration_s`.
    """
    if study.turns == BY_REQUEST:
        return TurnLengths(None)
    duration_s = workload.duration_s
    wanted_s = study.slices[(block - 1) % len(study.slices)] if study.slices else SLICE_S
    rounds = max(1, math.ceil(duration_s / wanted_s - 1e-9))
    return TurnLengths(duration_s / rounds, rounds)


def draw_turns(arms: Sequence[int], lengths: TurnLengths, requests: float, seed: str) -> list[tuple[int, int]]:
    """Return (arm, requests) in their order for one generator, drawn from `seed`.

    Each arm has one turn in every round, and as many requests in it as any other; all its turns together have
    `requests`, rounded up. Generators with different numbers of requests have the same arms in the same order.
    """
    draw, each = random.Random(seed), math.ceil(requests - 1e-9)
    if lengths.slice_s is None:
        return [(arm, 1) for _ in range(each) for arm in draw.sample(arms, len(arms))]
    edges = [round(number * each / lengths.rounds) for number in range(lengths.rounds + 1)]
    rounds = [(last - first, draw.sample(arms, len(arms))) for first, last in pairwise(edges)]
    return [(arm, count) for count, order in rounds if count for arm in order]


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
    rate_per_s, slice_s = study.workload.rate_per_s, min(study.slices or (SLICE_S,))
    if study.turns == BY_SLICE and rate_per_s and rate_per_s * slice_s < MIN_REQUESTS:
        text = f"a slice of {1000 * slice_s:g} ms has fewer than {MIN_REQUESTS} requests at {rate_per_s:g}/s"
        yield f'{text} (longer slices, or turns = "request")'


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
