"""The steps of an interleaved block, for a dry run."""

from __future__ import annotations

from loadbook.execution.arms_dry import JobNote, arms_phases, planned_attempts
from loadbook.execution.dry_run import DryRun
from loadbook.hosts.dry import DryRunStep
from loadbook.modes.interleaved.run_block import InterleavedBlock, longest_block_s


def block_phases(run: DryRun) -> list[tuple[str, list[DryRunStep]]]:
    """Execute the plan's first interleaved block on the recording hosts and return its phases with their steps."""
    with planned_attempts(run, longest_block_s(run.testbed.plan)) as attempts:
        block = InterleavedBlock(run.testbed, attempts, None)
        jobs = {
            block.load_name: _note_load(block),
            block.load.calibration_name: lambda step: "its latency, for the length of slices; in the first block only",
        }
        return arms_phases(run, block, jobs)


def _note_load(block: InterleavedBlock) -> JobNote:
    """Return a function that tells what a step of the job is for in which the generators take turns."""
    arms = {f"arm{arm}": attempt for arm, attempt in enumerate(block.attempts)}

    def note(step: DryRunStep) -> str:
        folder, _, name = step.args[0].removeprefix(f"jobs/{block.load_name}/").partition("/")
        if folder not in arms:
            return f"{block.attempts[0].workload.tool} of all treatments by turns"
        command = step.data.decode().strip() if name == "cmd" else ""
        return f"{arms[folder].planned.treatment}{command and f': {command}'}"

    return note
