"""Shared blocks on hosts: what they require, and the blocks of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from loadbook.execution.arms import attempts_at
from loadbook.execution.arms_requirements import reasons_against_arms
from loadbook.execution.attempt_store import AttemptStore
from loadbook.execution.block_runner import Begun, BlockRunner
from loadbook.execution.progress import OnEvent
from loadbook.execution.testbed import Testbed
from loadbook.modes.interleaved.run import InterleavedRun
from loadbook.modes.plain.run import TrialRunner
from loadbook.modes.shared.run_block import SharedBlock, longest_block_s

if TYPE_CHECKING:
    from loadbook.execution.dry_run import DryRun, DryRunPart
    from loadbook.hosts.dry import DryRunStep


class SharedBlocks(BlockRunner[SharedBlock]):
    """Runs shared blocks."""

    def make_block(self, begun: Sequence[Begun]) -> SharedBlock:
        """Return the block of trials whose attempts were just begun."""
        others_s = longest_block_s(self.testbed.plan)
        return SharedBlock(self.testbed, attempts_at(self.testbed, begun, others_s))

    def use_results(self, block: SharedBlock) -> None:
        """Use nothing: blocks do not depend on each other."""


class SharedRun(InterleavedRun):
    """What shared blocks do on hosts; memory and ports are checked as for interleaved ones."""

    def reasons_against(self, testbed: Testbed) -> Iterator[str]:
        """Yield reasons in the hosts and the hosts file for which shared blocks are not possible."""
        yield from reasons_against_arms(testbed, "divides the requests of a load generator by treatment")

    def check_steps(self, run: DryRun) -> Iterator[DryRunStep]:
        """Yield the steps that check perl, memory and ports for all treatments at once."""
        from loadbook.execution.arms_dry import check_steps

        yield from check_steps(run, "perl divides the requests by treatment")

    def block_part(self, run: DryRun) -> DryRunPart:
        """Return the part of a dry run with the steps of a shared block."""
        from loadbook.execution.dry_run import DryRunPart
        from loadbook.modes.shared.run_dry import block_phases

        plan = run.testbed.plan
        title = f"all treatments by one load generator: {', '.join(plan.treatments)}"
        return DryRunPart(title, plan.blocks, "block", block_phases(run))

    def runner(self, testbed: Testbed, store: AttemptStore, on_event: OnEvent) -> TrialRunner:
        """Return what runs shared blocks."""
        return SharedBlocks(testbed, store, on_event)


FACET = SharedRun()
