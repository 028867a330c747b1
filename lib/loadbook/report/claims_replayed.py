"""The claims of a study, each judged by the newest of its runs that has the treatments it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadbook.core.errors import LoadbookError
from loadbook.design.claim import Claim
from loadbook.design.study import Study
from loadbook.records.layout import Layout
from loadbook.records.rundata import RunData, load_run
from loadbook.report.build import refresh
from loadbook.stats.claims.judge import Judged, replay

Say = Callable[[str], None]


@dataclass(frozen=True)
class Replayed:
    """One claim judged by one run (None: no run has its treatments); `late`: it was written after that run."""

    run: str | None
    judged: Judged
    late: bool = False


def replayed(layout: Layout, study: Study, say: Say) -> list[Replayed]:
    """Judge the claims of a study file, newest run first; a run that cannot be read is named and passed over."""
    found = [Replayed(None, one) for one in replay(study)]
    for newest, data in enumerate(_newest_first(layout, study.name, say)):
        for number, one in enumerate(replay(study, data)):
            if one.finding.outcome != "not-run" and found[number].run is None:
                found[number] = Replayed(data.run, one, late=one.claim not in _declared(data))
            elif not newest:
                found[number] = Replayed(None, one)
        if all(one.run for one in found):
            break
    return found


def _declared(data: RunData) -> tuple[Claim, ...]:
    return data.study.published.claims if data.study.published else ()


def _newest_first(layout: Layout, study: str, say: Say) -> Iterator[RunData]:
    for run in reversed(layout.runs(study)):
        try:
            refresh(layout.run(study, run), say)
            yield load_run(layout, study, run)
        except LoadbookError as error:
            say(f"{study}: run {run} is passed over: {error.message}")
