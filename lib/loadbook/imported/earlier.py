"""Earlier imports into a study: the same outputs once more, and blocks that were added to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loadbook.core.errors import UsageError
from loadbook.execution.studies import study_file
from loadbook.imported.reports import ToolReport
from loadbook.store import trial_record
from loadbook.store.ledger import read_plan
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.run_record import read_run_record
from loadbook.study.plan import PlannedTrial

PlannedOutputs = Sequence[tuple[PlannedTrial, ToolReport]]
Output = tuple[str, frozenset[str]]  # treatment, and digests of its files


def earlier_imports(layout: Layout, name: str) -> list[str]:
    """Return the ids of a study's runs; UsageError if loadbook itself measured one, or the study has a study file."""
    runs = layout.runs(name)
    own_runs = [r for r in runs if read_run_record(layout.run(name, r)).provenance != "imported"]
    if own_runs or study_file(layout, name).is_file():
        raise UsageError(
            f"there is a study {name!r} already, and imported results are not mixed with its own",
            "give another name: --study NAME",
        )
    return runs


def find_same_import(layout: Layout, name: str, pairs: PlannedOutputs) -> str | None:
    """Return the id of the latest earlier run with the same trials and output files; None if there is none."""
    keys = {(planned.treatment, planned.block, report.source.digests) for planned, report in pairs}
    for run in reversed(earlier_imports(layout, name)):
        if keys == {(record.treatment, record.block, digests) for record, digests in _recorded(layout, name, run)}:
            return run
    return None


def added_blocks(layout: Layout, name: str, pairs: PlannedOutputs) -> int:
    """Return the number of blocks that differ from an earlier import of some of these outputs; 0 if there is none.

    The results of that import may have been seen: blocks that were added, changed or left out since then make the run
    exploratory (a result above 0). An output that did not count may be replaced. If all such imports are exploratory,
    all blocks are counted.
    """
    new = {(planned.treatment, report.source.digests): planned.block for planned, report in pairs}
    digests = {each for _, each in new}
    runs = [(run, [*_recorded(layout, name, run)]) for run in earlier_imports(layout, name)]
    related = [(run, recorded) for run, recorded in runs if digests & {each for _, each in recorded}]
    if not related:
        return 0
    confirmatory = [each for each in related if not read_plan(layout.run(name, each[0])).added]
    differences = [_differing_blocks(layout.run(name, run), recorded, new) for run, recorded in confirmatory]
    return min(differences, default=len(set(new.values())))


def _differing_blocks(
    paths: RunPaths, recorded: Sequence[tuple[trial_record.TrialRecord, frozenset[str]]], new: Mapping[Output, int]
) -> int:
    """Return how many blocks have an output that an earlier run has not, or lack one of it that counted."""
    old = {(record.treatment, digests): record for record, digests in recorded}
    counted = _counted_trials(paths)
    replaceable = {(r.treatment, r.block) for r in old.values() if r.trial not in counted}
    added = {block for key, block in new.items() if key not in old and (key[0], block) not in replaceable}
    left_out = {r.block for key, r in old.items() if key not in new and (r.treatment, r.block) not in replaceable}
    return len(added) + len(left_out - added)


def _counted_trials(paths: RunPaths) -> set[str]:
    """Return the trials of a run that count, by its table; every trial with status ok if there is no table."""
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(paths.table("trials"), columns=["trial", "valid"]).to_pylist()
    except (OSError, ValueError):
        return {folder.name for folder in paths.trials.glob("t*")}
    return {str(row["trial"]) for row in table if row["valid"]}


def _recorded(layout: Layout, name: str, run: str) -> Iterator[tuple[trial_record.TrialRecord, frozenset[str]]]:
    """Yield the record of every trial of a run, with the digests of its files that are not empty."""
    folders = layout.run(name, run)
    for place in (folders.trials, folders.failed):
        for file in place.glob(f"*/{trial_record.RECORD_NAME}"):
            record = trial_record.read_trial(file.parent)
            yield record, frozenset(f.sha256 for f in record.files.values() if f.size)
