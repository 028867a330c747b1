"""Rules about runs that loadbook did not do itself: in which order, and whether each output is one of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from loadbook.gates.base import Hit, message
from loadbook.records.manifest import TrialRecord


def order_not_random(records: Sequence[TrialRecord]) -> Iterator[Hit]:
    """Doubt an order that nobody recorded, or that a treatment's effect cannot be told from.

    Orders that loadbook drew need no evidence: they come from the plan's seed.
    """
    imported = [r for r in records if any(driver.source for driver in r.drivers)]
    seen = _seen_of_order(imported) if imported else None
    if seen:
        yield Hit("order_not_random", "doubt", None, None, None, message("order_not_random", seen))


def _seen_of_order(records: Sequence[TrialRecord]) -> str | None:
    """Return what is wrong with the order of trials, None when their times show complete rounds in mixed orders."""
    timed = [(r.started, r) for r in records if r.started is not None]
    if len(timed) < len(records):
        return f"for {len(records) - len(timed)} of {len(records)} trials it is not known when they began"
    blocks: dict[int, list[tuple[float, str]]] = {}
    for began, record in timed:
        blocks.setdefault(record.block, []).append((began, record.treatment))
    rounds = sorted(blocks.items(), key=lambda item: min(item[1]))
    for (number, one), (after, other) in pairwise(rounds):
        if min(other)[0] <= max(one)[0]:
            return f"block {after} began before block {number} was over, so they are no rounds"
    return _fixed_place([[treatment for _, treatment in sorted(trials)] for _, trials in rounds])


def _fixed_place(orders: Sequence[Sequence[str]]) -> str | None:
    """Return which treatment has the same place in every round, if one has."""
    if len(orders) < 2 or len(orders[0]) < 2:
        return None
    if all(order == orders[0] for order in orders):
        return f"the order was the same in all {len(orders)} blocks"
    for place, treatment in enumerate(orders[0]):
        if all(treatment in order and order.index(treatment) == place for order in orders):
            return f"{treatment} ran at place {place + 1} of every block"
    return None


def same_output(records: Sequence[TrialRecord]) -> Iterator[Hit]:
    """Doubt a trial whose output is that of an earlier one: a file that was copied, not a second measurement."""
    first: dict[tuple[str, ...], str] = {}
    for record in sorted(records, key=lambda r: r.slot):
        names = [name for driver in record.drivers for name in (driver.stdout, *driver.files.values())]
        kept = [file for name in names if (file := record.files.get(name)) and file.size]
        if record.status != "ok" or not kept:
            continue
        known = first.setdefault(tuple(file.sha256 for file in kept), record.trial)
        if known != record.trial:
            seen = f"its output is byte for byte that of {known}"
            yield Hit("same_output", "doubt", record.trial, record.treatment, None, message("same_output", seen))
