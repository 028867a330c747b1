"""Looks at a run under way, where its study declares them: which are left, what is seen, and whether that ends it.

A look makes the tables and asks the analysis that the report shows. What it saw is kept in the ledger, so that a run
that is resumed neither looks twice nor goes on after its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loadbook.core.errors import LoadbookError
from loadbook.design.plan import Plan
from loadbook.records.layout import Layout
from loadbook.records.ledger import Ledger
from loadbook.trials.progress import OnEvent, Progress

DECIDED = ("better", "worse", "small", "no-loss", "equivalent")


def ends(plan: Plan, entries: Iterable[dict[str, Any]]) -> list[int]:
    """Return the numbers of blocks after which a run may end, in order; the last is the end of its plan.

    Blocks that were added although everything was decided are all done: somebody asked for them.
    """
    changes = [e for e in entries if e["event"] in ("looked", "blocks-added")]
    looked = [e for e in changes if e["event"] == "looked"]
    if looked and looked[-1]["decided"]:
        return [looked[-1]["blocks"] if changes[-1] is looked[-1] else plan.blocks]
    since = looked[-1]["blocks"] if looked else 0
    return sorted({*(b for b in plan.study.stopping.looks_within(plan.blocks) if since < b < plan.blocks), plan.blocks})


def look(layout: Layout, plan: Plan, run: str, blocks: int, ledger: Ledger, on_event: OnEvent) -> bool:
    """Look at a run after so many blocks, if its study does and nobody did; return whether everything is decided.

    A look that fails decides nothing, and says so: the run goes on.
    """
    seen = [e for e in ledger.entries if e["event"] == "looked" and e["blocks"] == blocks]
    if seen or not plan.study.stopping.allows(blocks):
        return bool(seen) and bool(seen[-1]["decided"])
    try:
        where, left = _seen(layout, plan, run)
    except LoadbookError as error:
        on_event(Progress("note", f"no look after {blocks} blocks: {error.message}"))
        return False
    ledger.append("looked", blocks=blocks, decided=not left, undecided=left)
    said = f"undecided: {', '.join(left)}" if left else "every comparison is decided"
    on_event(Progress("note", f"{where}: {said}"))
    return not left


def _seen(layout: Layout, plan: Plan, run: str) -> tuple[str, list[str]]:
    """Return which look it is, and the treatments of which nothing can be said yet."""
    from loadbook.records.rundata import load_run
    from loadbook.stats.parts import analyse_parts
    from loadbook.stats.wording.sentences import evidence
    from loadbook.trials.ingest import ingest

    ingest(layout.run(plan.study.name, run))
    found = analyse_parts(load_run(layout, plan.study.name, run))
    rows = found.of_kind("treatment")
    left = [row.treatment for row in rows if row.verdict is None or row.verdict.kind not in DECIDED]
    where = evidence(found.stand.blocks or 0, found.stand.look, found.stand.added)
    return where, left or ([] if rows else ["no treatment to compare"])
