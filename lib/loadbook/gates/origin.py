"""Rules about runs that loadbook did not do itself: in which order, and whether each output is one of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from loadbook.gates.base import RuleHit, message
from loadbook.records.manifest import TrialRecord


def order_not_random(records: Sequence[TrialRecord]) -> Iterator[RuleHit]:
    """Doubt an order that nobody recorded, or that a treatment's effect cannot be told from.

    Orders that loadbook drew need no evidence: they come from the plan's seed.
    """
    imported = [r for r in records if any(driver.source for driver in r.drivers)]
    problem = _order_problem(imported) if imported else None
    if problem:
        yield RuleHit("order_not_random", "doubt", None, None, None, message("order_not_random", problem))


def _order_problem(records: Sequence[TrialRecord]) -> str | None:
    """Return what is wrong with the order of trials, None when their times show complete rounds in mixed orders."""
    timed = [(r.started, r) for r in records if r.started is not None]
    if len(timed) < len(records):
        return f"for {len(records) - len(timed)} of {len(records)} trials it is not known when they began"
    blocks: dict[int, list[tuple[float, str]]] = {}
    for started, record in timed:
        blocks.setdefault(record.block, []).append((started, record.treatment))
    rounds = sorted(blocks.items(), key=lambda item: min(item[1]))
    for (number, trials), (after, next_trials) in pairwise(rounds):
        if min(next_trials)[0] <= max(trials)[0]:
            return f"block {after} began before block {number} was over, so they are no rounds"
    return _fixed_position([[treatment for _, treatment in sorted(trials)] for _, trials in rounds])


def _fixed_position(orders: Sequence[Sequence[str]]) -> str | None:
    """Return which treatment has the same place in every round, if one has."""
    if len(orders) < 2 or len(orders[0]) < 2:
        return None
    if all(order == orders[0] for order in orders):
        return f"the order was the same in all {len(orders)} blocks"
    for position, treatment in enumerate(orders[0]):
        if all(treatment in order and order.index(treatment) == position for order in orders):
            return f"{treatment} ran at place {position + 1} of every block"
    return None


def same_output(records: Sequence[TrialRecord]) -> Iterator[RuleHit]:
    """Doubt a trial whose output is that of an earlier one: a file that was copied, not a second measurement."""
    first: dict[tuple[str, ...], str] = {}
    for record in sorted(records, key=lambda r: r.slot):
        names = [name for driver in record.drivers for name in (driver.stdout, *driver.files.values())]
        output_files = [file for name in names if (file := record.files.get(name)) and file.size]
        if record.status != "ok" or not output_files:
            continue
        earlier = first.setdefault(tuple(file.sha256 for file in output_files), record.trial)
        if earlier != record.trial:
            observation = f"its output is byte for byte that of {earlier}"
            yield RuleHit("same_output", "doubt", record.trial, record.treatment, None, message("same_output", observation))
