"""Interleaved execution: whether a study's treatments can be interleaved, and the lengths of slice and gap.

In an interleaved block all treatments run at once, each with its own load generator. Only one generator runs at any
instant, the others are stopped; they alternate in slices. Slow changes of a host then affect all treatments alike.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from loadbook.core.metrics import get_metric
from loadbook.study.model import Study
from loadbook.study.workload import matching_option

# load generators that end on time and count correctly if stopped in between
# (tests/live/timing/services/test_paused_load.py)
PAUSABLE_TOOLS = frozenset({"ab", "h2load", "k6", "oha", "wrk"})
MIN_SLICE_S, MAX_SLICE_S, MIN_GAP_S = 0.012, 1.0, 0.001
# requests under way when a generator is stopped are answered within about one mean latency (Little's law)
SLICE_LATENCIES, GAP_LATENCIES = 20, 2
# several drivers alternate by the same schedule, each by its own corrected clock
SLICE_CLOCK_ERRORS, GAP_CLOCK_ERRORS = 50, 2
# several drivers let a generator whose time is over end in a slice of this length, before the next one begins
END_SLICE_S = 0.2
# in its first slice, a generator starts and opens its connections
FIRST_SLICE_S = 0.05
# a generator whose time is over may take this long to end, first a tenth of it, while the others are stopped
TAIL_S = 5.0
# options that close or delay connections by the wall clock, which runs on while a generator is stopped
WALL_CLOCK_OPTIONS = {
    "h2load": (
        *("-T", "--connection-active-timeout", "-N", "--connection-inactivity-timeout"),
        *("-r", "--rate", "--rate-period", "--rps"),
    ),
    "k6": ("--min-iteration-duration",),
    "oha": ("--burst-delay", "--burst-rate"),
}


class SliceLengths(NamedTuple):
    """Lengths in seconds of a slice, of the gap before each slice, and of a generator's first slice."""

    slice_s: float
    gap_s: float
    first_s: float = FIRST_SLICE_S


def slices_for_latency(latency_s: float, clock_error_s: float = 0.0) -> SliceLengths | None:
    """Return the lengths for the mean latency of the slowest arm; None if a slice would be longer than 1 s.

    A slice is at least 20 mean latencies and 12 ms, so that few responses arrive after its end; a gap is at least 2
    mean latencies and 1 ms, so that no work of one arm remains in the slice of the next. Of several drivers, whose
    clocks differ by up to `clock_error_s` after correction, slices are at least 50 of these errors long, and gaps are
    longer by 2 of them.
    """
    slice_s = max(MIN_SLICE_S, SLICE_LATENCIES * latency_s, SLICE_CLOCK_ERRORS * clock_error_s)
    if slice_s > MAX_SLICE_S:
        return None
    gap_s = max(MIN_GAP_S, GAP_LATENCIES * latency_s) + GAP_CLOCK_ERRORS * clock_error_s
    return SliceLengths(math.ceil(slice_s * 1000) / 1000, math.ceil(gap_s * 10000) / 10000)


def slices_of_block(study: Study, block: int, by_latency: SliceLengths) -> SliceLengths:
    """Return the lengths for a block (1, 2, ...): the study's `slices` in turn, or those for the latency.

    A slice is never shorter than one for the latency and the clocks, `slices_for_latency`.
    """
    if not study.slices:
        return by_latency
    wanted_s = study.slices[(block - 1) % len(study.slices)]
    return by_latency._replace(slice_s=max(wanted_s, by_latency.slice_s))


def block_seconds(lengths: SliceLengths, arms: int, duration_s: float) -> float:
    """Return the seconds from the start of the first generator until each arm has had `duration_s` of load."""
    rounds = math.ceil(max(0.0, duration_s - lengths.first_s) / lengths.slice_s)
    return arms * (lengths.first_s + lengths.gap_s) + rounds * arms * (lengths.slice_s + lengths.gap_s)


def longest_pause_s(lengths: SliceLengths, arms: int, end_s: float = TAIL_S / 10) -> float:
    """Return the seconds for which a generator is stopped at most, if others take up to `end_s` to end.

    Between two slices of an arm every other arm can have two, as it can be the first in one round and the last in the
    next one; in the first and the last round, a slice can be longer.
    """
    longest_slice_s = max(lengths.first_s, lengths.slice_s, end_s)
    return (arms - 1) * (longest_slice_s + lengths.slice_s + 2 * lengths.gap_s) + lengths.gap_s


def longest_idle_s(lengths: SliceLengths, arms: int) -> float:
    """Return the seconds for which a generator's connections are idle at most, while it takes turns with the others."""
    return longest_pause_s(lengths, arms, end_s=0.0)


def lengths_of_run(study: Study, by_latency: SliceLengths) -> list[SliceLengths]:
    """Return the lengths that the blocks of a run have in turn."""
    return [slices_of_block(study, block, by_latency) for block in range(1, max(1, len(study.slices)) + 1)]


def timeout_with_pauses_s(timeout_s: float, lengths: SliceLengths, arms: int) -> float:
    """Return the time-out, in whole seconds, with which no pause lets a request fail that would not fail otherwise."""
    return float(math.ceil(timeout_s + longest_pause_s(lengths, arms)))


def draw_rounds(arms: int, rounds: int, seed: str) -> list[list[int]]:
    """Return the random order of the arms (0, 1, ...) in every round, drawn from `seed`."""
    draw = random.Random(seed)
    return [draw.sample(range(arms), arms) for _ in range(rounds)]


class ScheduledService(NamedTuple):
    """A service whose CPU time is read at every slice: its arm, machine (boot id, namespace) and leading process."""

    arm: int
    machine: str
    leader: int


def schedule_text(
    lengths: SliceLengths,
    arms: Sequence[int],
    rounds: Sequence[Sequence[int]],
    end_s: float,
    services: Sequence[ScheduledService] = (),
    at: float | None = None,
) -> str:
    """Return the schedule for `hosts/interleave.pl`, in which each arm has the folder ``armK``.

    Each of `rounds` holds arms in their order; a generator ends by itself `end_s` seconds after its start. `at` is the
    instant (epoch s, the driver's clock) of the first slice, from which the instants of all others follow.
    """
    values = {"first": lengths.first_s, "slice": lengths.slice_s, "gap": lengths.gap_s, "end": end_s, "tail": TAIL_S}
    lines = [f"{name} {value:g}" for name, value in values.items()]
    lines += [f"at {at:.6f}", f"last {END_SLICE_S:g}"] if at is not None else []
    lines += [f"order {' '.join(map(str, order))}" for order in rounds]
    lines += [f"arm {arm} arm{arm}" for arm in arms]
    lines += [f"service {one.arm} {one.machine} {one.leader}" for one in services]
    return "".join(f"{line}\n" for line in lines)


def compares_slices(study: Study) -> bool:
    """Return whether blocks have slices of several lengths, so that effects are compared between them."""
    return study.execution in ("interleaved", "shared") and len(set(study.slices)) > 1


def plain_reasons(study: Study, treatments: Sequence[str]) -> list[str]:
    """Return the reasons in the study file why these treatments cannot be interleaved; empty if they can.

    The hosts may give further reasons: a different machine, too little memory.
    """
    return [*_question_reasons(study, treatments), *_load_reasons(study, treatments), *host_reasons(study, treatments)]


def _question_reasons(study: Study, treatments: Sequence[str]) -> Iterator[str]:
    if study.capacity:
        yield "a search for capacity has loads at a rate of their own for every treatment"
    if len(treatments) < 2:
        yield "there is only one treatment"
    if get_metric(study.metric).kind not in ("rate", "cost"):
        yield f"the metric is {study.metric}: a request that is stopped under way has the others' time in it"


def _load_reasons(study: Study, treatments: Sequence[str]) -> Iterator[str]:
    loads = [study.workload_of(name) for name in treatments]
    if tools := sorted({load.tool for load in loads} - PAUSABLE_TOOLS):
        yield f"{', '.join(tools)} cannot be stopped and continued ({', '.join(sorted(PAUSABLE_TOOLS))} can)"
    if plans := sorted({f"{load.tool}'s {load.plan}" for load in loads if load.plan}):
        yield f"the load is that of a file, {plans[0]}, whose timers would run on while its generator is stopped"
    words = {(load.tool, word) for load in loads for word in load.extra}
    for tool, word in sorted(w for w in words if matching_option(w[1], WALL_CLOCK_OPTIONS.get(w[0], ()))):
        yield f"{tool}'s option {word} acts by the wall clock, which runs on while its generator is stopped"
    if any(load.model == "open" for load in loads):
        yield "the load is open: while stopped, its generator falls behind its schedule"
    if any(load.requests is not None for load in loads):
        yield "the load ends after a number of requests: arms would not be under load for the same time"
    if any(load.think_time_s for load in loads):
        yield "the load has a think time, which would run on while its generator is stopped"
    if len({(load.duration_s, load.warmup_s) for load in loads}) > 1:
        yield "treatments differ in duration_s or warmup_s"


def host_reasons(study: Study, treatments: Sequence[str]) -> Iterator[str]:
    """Yield the reasons in roles why the services of these treatments cannot be up at once."""
    settings = [(role, study.setting(name, role)) for name in treatments for role in study.roles]
    if roles := sorted({role for role, setting in settings if setting.mode == "system"}):
        yield f"role {roles[0]} is the host's own server, which has one configuration at a time"
    changes = {(key, role) for role, setting in settings for key, value in setting.host_changes.items() if value}
    for key in sorted({key for key, _ in changes}):
        yield f"{key} of role {min(role for changed, role in changes if changed == key)} changes its whole host"
    if any(study.setting(name, study.workload.role).service for name in treatments):
        yield f"the role that drives, {study.workload.role}, has a service of its own"
