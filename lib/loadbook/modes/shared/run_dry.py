"""The steps of a shared block, for a dry run."""

from __future__ import annotations

from loadbook.execution.arms_dry import JobNote, arms_phases, planned_attempts
from loadbook.execution.dry_run import DryRun
from loadbook.hosts.dry import DryRunStep
from loadbook.modes.shared.run_block import SharedBlock, longest_block_s
from loadbook.modes.shared.spec import SCHEDULE_FILE
from loadbook.tools.shared_load import ARMS_FILE


def block_phases(run: DryRun) -> list[tuple[str, list[DryRunStep]]]:
    """Execute the plan's first shared block on the recording hosts and return its phases with their steps."""
    with planned_attempts(run, longest_block_s(run.testbed.plan)) as attempts:
        block = SharedBlock(run.testbed, attempts)
        return arms_phases(run, block, {block.load_name: _note_load(block)})


def _note_load(block: SharedBlock) -> JobNote:
    """Return a function that tells what a step of the job of the load is for."""
    tool = block.attempts[0].workload.tool

    def note(step: DryRunStep) -> str:
        name = step.args[0].rpartition("/")[2] if step.args else ""
        return {ARMS_FILE: "URLs of all treatments", SCHEDULE_FILE: "turns of their requests"}.get(
            name, f"{tool} sends the requests of all treatments by turns"
        )

    return note
