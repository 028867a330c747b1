"""Interleaved blocks on hosts: what they require, and the blocks of a run, whose slices the first one chooses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from loadbook.core.units import join_words
from loadbook.execution.arms import attempts_at
from loadbook.execution.arms_requirements import check_arms, reasons_against_arms
from loadbook.execution.attempt_store import PUBLISHED_STATUSES, AttemptStore
from loadbook.execution.block_runner import Begun, BlockRunner
from loadbook.execution.deployment import Deployment
from loadbook.execution.progress import OnEvent, Progress
from loadbook.execution.testbed import Testbed
from loadbook.hosts.doctor import CheckResult
from loadbook.hosts.host import Host
from loadbook.modes.interleaved.run_block import InterleavedBlock, longest_block_s
from loadbook.modes.interleaved.spec import SliceLengths, lengths_of_run
from loadbook.modes.plain.run import PlainRun, TrialRunner
from loadbook.store.trial_record import read_trial

if TYPE_CHECKING:
    from loadbook.execution.dry_run import DryRun, DryRunPart
    from loadbook.hosts.dry import DryRunStep


class InterleavedBlocks(BlockRunner[InterleavedBlock]):
    """Runs interleaved blocks; the latency that sets slice and gap is measured in the first block of a run only."""

    def __init__(self, testbed: Testbed, store: AttemptStore, on_event: OnEvent) -> None:
        super().__init__(testbed, store, on_event)
        self.by_latency = _recorded_lengths(store)

    def make_block(self, begun: Sequence[Begun]) -> InterleavedBlock:
        """Return the block, which measures the latency if no block did so before."""
        others_s = longest_block_s(self.testbed.plan)
        return InterleavedBlock(self.testbed, attempts_at(self.testbed, begun, others_s), self.by_latency)

    def use_results(self, block: InterleavedBlock) -> None:
        """Keep the lengths of slice and gap that a block chose by its latency, for all blocks that follow.

        Called after each block; only the first one of a run measures the latency, and its choice is printed as a note.
        """
        if self.by_latency is not None or not block.by_latency:
            return
        self.by_latency, study = block.by_latency, block.testbed.plan.study
        slices_ms = dict.fromkeys(f"{1000 * own.slice_s:g}" for own in lengths_of_run(study, self.by_latency))
        turns = f"slices of {join_words(list(slices_ms))} ms with gaps of {1000 * self.by_latency.gap_s:g} ms"
        latency = f"{1000 * (block.latency_s or 0.0):.2g} ms on average"
        slowest = f"the slowest of {len(block.attempts)} arms answers in {latency}"
        self.on_event(Progress("note", f"interleaved: {turns}, as {slowest}"))


def _recorded_lengths(store: AttemptStore) -> SliceLengths | None:
    """Return the lengths of slice and gap in the first block of this run that is done; None if there is none.

    Where the study sets the slices, only the gap is that for the latency.
    """
    for trial, state in store.states().items():
        folder = store.paths.trial(trial)
        is_published = state.final and state.status in PUBLISHED_STATUSES and folder.is_dir()
        if is_published and (record := read_trial(folder).interleaved) is not None:
            return SliceLengths(record.slice_s, record.gap_s)
    return None


class InterleavedRun(PlainRun):
    """What interleaved blocks do on hosts."""

    def reasons_against(self, testbed: Testbed) -> Iterator[str]:
        """Yield reasons in the hosts and the hosts file for which interleaved blocks are not possible."""
        yield from reasons_against_arms(testbed, "lets load generators take turns")

    def check_hosts(self, testbed: Testbed, hosts: Mapping[str, Host]) -> Iterator[CheckResult]:
        """Check memory and ports for all treatments at once."""
        yield from check_arms(testbed, hosts)

    def deployments(self, testbed: Testbed) -> list[Deployment]:
        """Return the deployments of all arms, each on ports of its own."""
        return [Deployment(testbed, name, arm) for arm, name in enumerate(testbed.plan.treatments)]

    def check_steps(self, run: DryRun) -> Iterator[DryRunStep]:
        """Yield the steps that check perl, memory and ports for all treatments at once."""
        from loadbook.execution.arms_dry import check_steps

        yield from check_steps(run, "perl lets the load generators take turns")

    def block_part(self, run: DryRun) -> DryRunPart:
        """Return the part of a dry run with the steps of an interleaved block."""
        from loadbook.execution.dry_run import DryRunPart
        from loadbook.modes.interleaved.run_dry import block_phases

        plan = run.testbed.plan
        title = f"all treatments by turns: {', '.join(plan.treatments)}"
        return DryRunPart(title, plan.blocks, "block", block_phases(run))

    def runner(self, testbed: Testbed, store: AttemptStore, on_event: OnEvent) -> TrialRunner:
        """Return what runs interleaved blocks."""
        return InterleavedBlocks(testbed, store, on_event)


FACET = InterleavedRun()
