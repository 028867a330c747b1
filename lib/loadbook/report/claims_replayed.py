"""The claims of a study, each judged by the newest of its runs that has the treatments it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadbook.core.errors import LoadbookError
from loadbook.design.claim import Claim
from loadbook.design.study import Study
from loadbook.records.layout import Layout
from loadbook.records.rundata import RunData, load_run
from loadbook.report.build import ensure_ingested
from loadbook.stats.claims.judge import ClaimResult, check_claims

OnMessage = Callable[[str], None]


@dataclass(frozen=True)
class ClaimByRun:
    """One claim judged by one run (None: no run has its treatments); `late`: it was written after that run."""

    run: str | None
    result: ClaimResult
    late: bool = False


def replay_claims(layout: Layout, study: Study, on_message: OnMessage) -> list[ClaimByRun]:
    """Judge the claims of a study file, newest run first; a run that cannot be read is named and passed over."""
    found = [ClaimByRun(None, one) for one in check_claims(study)]
    for newest, data in enumerate(_runs_newest_first(layout, study.name, on_message)):
        for number, one in enumerate(check_claims(study, data)):
            if one.finding.outcome != "not-run" and found[number].run is None:
                found[number] = ClaimByRun(data.run, one, late=one.claim not in _declared_claims(data))
            elif not newest:
                found[number] = ClaimByRun(None, one)
        if all(one.run for one in found):
            break
    return found


def _declared_claims(data: RunData) -> tuple[Claim, ...]:
    return data.study.published.claims if data.study.published else ()


def _runs_newest_first(layout: Layout, study: str, on_message: OnMessage) -> Iterator[RunData]:
    for run in reversed(layout.runs(study)):
        try:
            ensure_ingested(layout.run(study, run), on_message)
            yield load_run(layout, study, run)
        except LoadbookError as error:
            on_message(f"{study}: run {run} is passed over: {error.message}")
