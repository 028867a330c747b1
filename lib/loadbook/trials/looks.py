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

DECISIVE_VERDICTS = ("better", "worse", "small", "no-loss", "equivalent")


def stopping_points(plan: Plan, entries: Iterable[dict[str, Any]]) -> list[int]:
    """Return the numbers of blocks after which a run may end, in order; the last is the end of its plan.

    Blocks that were added although everything was decided are all done: somebody asked for them.
    """
    changes = [e for e in entries if e["event"] in ("looked", "blocks-added")]
    analyses = [e for e in changes if e["event"] == "looked"]
    if analyses and analyses[-1]["decided"]:
        return [analyses[-1]["blocks"] if changes[-1] is analyses[-1] else plan.blocks]
    since = analyses[-1]["blocks"] if analyses else 0
    return sorted({*(b for b in plan.study.stopping.interim_blocks(plan.blocks) if since < b < plan.blocks), plan.blocks})


def interim_analysis(layout: Layout, plan: Plan, run: str, blocks: int, ledger: Ledger, on_event: OnEvent) -> bool:
    """Look at a run after so many blocks, if its study does and nobody did; return whether everything is decided.

    A look that fails decides nothing, and says so: the run goes on.
    """
    earlier = [e for e in ledger.entries if e["event"] == "looked" and e["blocks"] == blocks]
    if earlier or not plan.study.stopping.allows_interim(blocks):
        return bool(earlier) and bool(earlier[-1]["decided"])
    try:
        title, undecided = _undecided_treatments(layout, plan, run)
    except LoadbookError as error:
        on_event(Progress("note", f"no look after {blocks} blocks: {error.message}"))
        return False
    ledger.append("looked", blocks=blocks, decided=not undecided, undecided=undecided)
    message = f"undecided: {', '.join(undecided)}" if undecided else "every comparison is decided"
    on_event(Progress("note", f"{title}: {message}"))
    return not undecided


def _undecided_treatments(layout: Layout, plan: Plan, run: str) -> tuple[str, list[str]]:
    """Return which look it is, and the treatments of which nothing can be said yet."""
    from loadbook.records.rundata import load_run
    from loadbook.stats.parts import analyse_strata
    from loadbook.stats.wording.sentences import evidence_text
    from loadbook.trials.ingest import ingest

    ingest(layout.run(plan.study.name, run))
    analysis = analyse_strata(load_run(layout, plan.study.name, run))
    rows = analysis.of_kind("treatment")
    undecided = [row.treatment for row in rows if row.verdict is None or row.verdict.kind not in DECISIVE_VERDICTS]
    title = evidence_text(analysis.stopping_state.blocks or 0, analysis.stopping_state.interim_analysis, analysis.stopping_state.added_blocks)
    return title, undecided or ([] if rows else ["no treatment to compare"])
