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
from loadbook.design.plan import Plan, PlannedTrial, parse_plan
from loadbook.records.added import read_added_files
from loadbook.records.layout import RunPaths
from loadbook.records.manifest import read_json
from loadbook.records.planned import read_current_plan
from loadbook.records.verify import attempt_checksums, changed_run_files
from loadbook.trials.added_rows import AddedFiles
from loadbook.trials.folders import TrialFolder, find_trial_folders
from loadbook.trials.reading import IngestedTrial, IngestPart, read_part
from loadbook.trials.remembered import load_cache, save_cache, raw_state
from loadbook.trials.spread import usable_cpus, worker_processes, map_unordered
from loadbook.trials.versions import code_version

# Raw bytes that a worker is given at a time, and below which no processes are started: starting takes longer then.
PART_BYTES, MIN_PARALLEL_BYTES = 4_000_000, 12_000_000


@dataclass(frozen=True)
class IngestSummary:
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
    on_note: Callable[[str], None] = lambda text: None,
) -> IngestSummary:
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
    plan = parse_plan(read_current_plan(paths), str(paths.plan_json))
    folders, unplanned = find_trial_folders(paths, [planned.trial for planned in plan.trials])
    changed, sums = changed_run_files(paths), attempt_checksums(paths)
    if paths.plan_json.name in changed:
        hint = "restore it from a backup; loadbook verify names all that changed"
        raise DataError(f"{paths.plan_json} is not as it was kept when the run ended: it was not used", hint)
    facts, files = _read_host_facts(paths, changed), AddedFiles(paths.raw.absolute(), tuple(read_added_files(paths)))
    state, cache = raw_state(paths, folders, [unplanned, facts, changed, len(plan.trials)]), load_cache(paths)
    if cache and cache.state == state != "":
        return _to_summary(cache.summary, read=0)
    from loadbook.trials.assemble import concat_by_table, split_by_trial, write_tables  # needs statistics, slow to import

    ingested = cache.unchanged_trials(folders) if cache else {}
    pieces = [p for p in split_by_trial(cache.tables()) if p.trial in ingested] if cache else []
    new = {trial: folder for trial, folder in folders.items() if trial not in ingested}
    _remove_stale_requests(paths, ingested)
    for stale in (path for path in paths.request_logs.glob("*.parquet") if path.stem not in folders):
        stale.unlink()
    on_trial(len(ingested), len(folders))
    with _open_workers(executor, new) as workers:
        for rows in map_unordered(read_part, list(_split_into_parts(paths, plan, new, files, sums)), workers, on_note):
            ingested |= rows.trials
            pieces += split_by_trial(rows.tables)
            on_trial(len(ingested), len(folders))
    summary = write_tables(paths, plan, ingested, concat_by_table(pieces), unplanned, facts, files, changed)
    save_cache(paths, state, summary, folders, ingested)
    return _to_summary(summary, read=len(new))


def _remove_stale_requests(paths: RunPaths, ingested: Mapping[str, IngestedTrial]) -> None:
    """Remove the requests kept of trials that are read now, or are not there any more."""
    for file in paths.request_logs.iterdir() if paths.request_logs.is_dir() else ():
        if file.stem not in ingested:
            file.unlink()


def _to_summary(summary: Mapping[str, Any], read: int) -> IngestSummary:
    causes = [(why, count) for why, count in summary["causes"]]
    return IngestSummary(**{**summary, "causes": causes, "read": read})


def _read_host_facts(paths: RunPaths, changed: Sequence[str]) -> dict[str, Any]:
    """Return what the hosts told before and after the run; a file that changed or cannot be read is as if not there."""
    facts: dict[str, Any] = {}
    for path in sorted(paths.facts.glob("*.json")):
        if path.relative_to(paths.raw).as_posix() in changed:
            continue
        with suppress(DataError):
            facts[path.stem] = read_json(path)
    return facts


def _open_workers(executor: Executor | None, new: Mapping[str, TrialFolder]) -> AbstractContextManager[Executor | None]:
    if executor is not None or usable_cpus() == 1 or sum(folder.size for folder in new.values()) < MIN_PARALLEL_BYTES:
        return nullcontext(executor)
    return worker_processes()


def _split_into_parts(
    paths: RunPaths, plan: Plan, new: Mapping[str, TrialFolder], files: AddedFiles, sums: Mapping[str, Mapping[int, str]]
) -> Iterator[IngestPart]:
    """Yield the new trials in parts of about PART_BYTES, at least one trial each."""
    part: list[tuple[PlannedTrial, Path]] = []
    size = 0
    for planned in plan.trials:
        if planned.trial in new:
            part.append((planned, new[planned.trial].folder.absolute()))
            size += new[planned.trial].size
        if part and (size >= PART_BYTES or planned is plan.trials[-1]):
            name, code = paths.raw.name, code_version()
            part_sums = {planned.trial: sums[planned.trial] for planned, _ in part if planned.trial in sums}
            yield IngestPart(plan.study.name, name, plan.study.gates, tuple(part), code, paths.request_logs, files, part_sums)
            part, size = [], 0
