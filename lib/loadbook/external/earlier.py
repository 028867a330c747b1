"""Earlier imports into a study: the same outputs once more, and blocks that were added to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadbook.core.errors import UsageError
from loadbook.execution.studies import study_file
from loadbook.external import outputs
from loadbook.external.reports import ToolReport
from loadbook.store import trial_record
from loadbook.store.paths import Layout
from loadbook.store.run_record import read_run_record
from loadbook.study.plan import PlannedTrial

PlannedOutputs = Sequence[tuple[PlannedTrial, ToolReport]]


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
    keys = {(planned.treatment, planned.block, _digests(report)) for planned, report in pairs}
    for run in reversed(earlier_imports(layout, name)):
        if keys == {(record.treatment, record.block, digests) for record, digests in _recorded(layout, name, run)}:
            return run
    return None


def added_blocks(layout: Layout, name: str, pairs: PlannedOutputs) -> int:
    """Return the number of blocks without an output of an earlier import, beside blocks that have some; else 0.

    They were added after results were seen, as far as is known: the run is exploratory.
    """
    known = {digests for run in earlier_imports(layout, name) for _, digests in _recorded(layout, name, run)}
    blocks = {planned.block for planned, _ in pairs}
    earlier = {planned.block for planned, report in pairs if _digests(report) in known}
    return len(blocks - earlier) if earlier else 0


def _digests(report: ToolReport) -> frozenset[str]:
    return frozenset(outputs.content_digests(report.source))


def _recorded(layout: Layout, name: str, run: str) -> Iterator[tuple[trial_record.TrialRecord, frozenset[str]]]:
    """Yield the record of every trial of a run, with the digests of its files that are not empty."""
    folders = layout.run(name, run)
    for place in (folders.trials, folders.failed):
        for file in place.glob(f"*/{trial_record.RECORD_NAME}"):
            record = trial_record.read_trial(file.parent)
            yield record, frozenset(f.sha256 for f in record.files.values() if f.size)
