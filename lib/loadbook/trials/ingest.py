"""data/raw of one run -> its five tables in data/processed. No network, no clock: rebuilt tables are byte-identical.

Conditions come only from trial.json, never from folder names. Every planned trial is accounted for: by a row, or by
a problem that says why there is none. Folders are read in parts (`trials.reading`) that may go to worker processes
(`trials.spread`), and only those that the last ingest has not read as they are (`trials.remembered`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError
from loadbook.design.plan import Plan, PlannedTrial, read_plan
from loadbook.records.added import added
from loadbook.records.layout import RunPaths
from loadbook.records.manifest import read_json
from loadbook.records.planned import plan_of
from loadbook.records.verify import attempt_sums, changed_own
from loadbook.trials.added_rows import AddedFiles
from loadbook.trials.folders import Found, find
from loadbook.trials.reading import Known, Part, read_part
from loadbook.trials.remembered import recall, remember, state_of
from loadbook.trials.spread import cpus, processes, spread
from loadbook.trials.versions import code_version

# Raw bytes that a worker is given at a time, and below which no processes are started: starting takes longer then.
PART_BYTES, FEW_BYTES = 4_000_000, 12_000_000


@dataclass(frozen=True)
class Ingested:
    """What an ingest found: numbers of planned, recorded and valid trials, of problems by level, and causes.

    `causes` says why recorded trials are not valid (how they ended, else their gates), with how many, most frequent
    first. `read` is the number of trials whose folders were read this time.
    """

    planned: int
    trials: int
    valid: int
    problems: dict[str, int]
    causes: list[tuple[str, int]]
    read: int = 0


def ingest(
    paths: RunPaths,
    executor: Executor | None = None,
    on_trial: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda text: None,
) -> Ingested:
    """Make the five tables of one run; trials that are unchanged since the last time are not read again.

    Parameters
    ----------
    executor : reads the trials; None: processes of our own where there is enough to read, else this process.
    on_trial : is told how many trials are in, and of how many.
    say : is told what else somebody who waits should know.

    Raises
    ------
    DataError : the plan cannot be read, or rows do not fit the declared schema.
    """
    plan = read_plan(plan_of(paths), str(paths.plan))
    found, strays = find(paths, [planned.trial for planned in plan.trials])
    changed, sums = changed_own(paths), attempt_sums(paths)
    if paths.plan.name in changed:
        hint = "restore it from a backup; loadbook verify names all that changed"
        raise DataError(f"{paths.plan} is not as it was kept when the run ended: it was not used", hint)
    facts, files = _facts(paths, changed), AddedFiles(paths.raw.absolute(), tuple(added(paths)))
    state, memory = state_of(paths, found, [strays, facts, changed, len(plan.trials)]), recall(paths)
    if memory and memory.state == state != "":
        return _ingested(memory.summary, read=0)
    from loadbook.trials.assemble import joined, pieces_of, write_tables  # needs statistics, slow to import

    known = memory.known(found) if memory else {}
    pieces = [p for p in pieces_of(memory.tables()) if p.trial in known] if memory else []
    new = {trial: one for trial, one in found.items() if trial not in known}
    _clear(paths, known)
    for gone in (path for path in paths.requests.glob("*.parquet") if path.stem not in found):
        gone.unlink()
    on_trial(len(known), len(found))
    with _workers(executor, new) as workers:
        for rows in spread(read_part, list(_parts(paths, plan, new, files, sums)), workers, say):
            known |= rows.known
            pieces += pieces_of(rows.tables)
            on_trial(len(known), len(found))
    summary = write_tables(paths, plan, known, joined(pieces), strays, facts, files, changed)
    remember(paths, state, summary, found, known)
    return _ingested(summary, read=len(new))


def _clear(paths: RunPaths, known: Mapping[str, Known]) -> None:
    """Remove the requests kept of trials that are read now, or are not there any more."""
    for kept in paths.requests.iterdir() if paths.requests.is_dir() else ():
        if kept.stem not in known:
            kept.unlink()


def _ingested(summary: Mapping[str, Any], read: int) -> Ingested:
    causes = [(why, count) for why, count in summary["causes"]]
    return Ingested(**{**summary, "causes": causes, "read": read})


def _facts(paths: RunPaths, changed: Sequence[str]) -> dict[str, Any]:
    """Return what the hosts told before and after the run; a file that changed or cannot be read is as if not there."""
    facts: dict[str, Any] = {}
    for path in sorted(paths.facts.glob("*.json")):
        if path.relative_to(paths.raw).as_posix() in changed:
            continue
        with suppress(DataError):
            facts[path.stem] = read_json(path)
    return facts


def _workers(executor: Executor | None, new: Mapping[str, Found]) -> AbstractContextManager[Executor | None]:
    if executor is not None or cpus() == 1 or sum(one.size for one in new.values()) < FEW_BYTES:
        return nullcontext(executor)
    return processes()


def _parts(
    paths: RunPaths, plan: Plan, new: Mapping[str, Found], files: AddedFiles, sums: Mapping[str, Mapping[int, str]]
) -> Iterator[Part]:
    """Yield the new trials in parts of about PART_BYTES, at least one trial each."""
    chosen: list[tuple[PlannedTrial, Path]] = []
    size = 0
    for planned in plan.trials:
        if planned.trial in new:
            chosen.append((planned, new[planned.trial].folder.absolute()))
            size += new[planned.trial].size
        if chosen and (size >= PART_BYTES or planned is plan.trials[-1]):
            name, code = paths.raw.name, code_version()
            own = {planned.trial: sums[planned.trial] for planned, _ in chosen if planned.trial in sums}
            yield Part(plan.study.name, name, plan.study.gates, tuple(chosen), code, paths.requests, files, own)
            chosen, size = [], 0
