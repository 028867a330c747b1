"""The steps of an interleaved block, for a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from loadbook.execution.attempt import Attempt
from loadbook.execution.dry_run import PHASE_TITLES, DryRun, Notes, changes_note, page_url, with_titles
from loadbook.hosts.dry import DryRunStep
from loadbook.modes.interleaved import run_requirements
from loadbook.modes.interleaved.run_block import InterleavedBlock, longest_block_s


def block_phases(run: DryRun) -> list[tuple[str, list[DryRunStep]]]:
    """Execute the plan's first interleaved block on the recording hosts and return its phases with their steps."""
    plan = run.testbed.plan
    planned_arms = [planned for planned in plan.trials if planned.block == plan.latency_blocks + 1]
    with TemporaryDirectory(prefix="loadbook-dry-run-") as folder:
        attempts = []
        for arm, planned in enumerate(planned_arms):
            own = Path(folder) / planned.trial
            own.mkdir()
            attempts.append(Attempt(run.testbed, planned, 1, own, arm, longest_block_s(plan)))
        block = InterleavedBlock(run.testbed, attempts, None)
        notes, steps = notes_of_block(block), dict[str, list[DryRunStep]]()
        of_arm, of_block = block.arm_phases(), {"reset": block.reset, "load": block.run_load, "stop": block.stop}
        for phase in PHASE_TITLES:
            if phase in of_block:
                of_block[phase]()
            else:
                for arm, attempt in enumerate(attempts):
                    run.prepare_answers(attempt, phase)
                    of_arm[phase](arm, attempt)
            steps[phase] = list(notes.annotate(run.log.take(), phase))
        return with_titles(steps, attempts)


def check_steps(run: DryRun) -> Iterator[DryRunStep]:
    """Yield the steps that check perl, memory and ports for all treatments at once."""
    testbed = run.testbed
    for alias in testbed.drivers:
        yield DryRunStep(alias, "run", run_requirements.PERL_CHECK, "perl lets the load generators take turns")
    for alias in run.hosts:
        yield DryRunStep(alias, "script", (run_requirements.MEMORY_SCRIPT,), "memory for all treatments at once")
    for (client, server), ports in run_requirements.ports_of_later_arms(testbed).items():
        listen, connect = run_requirements.port_commands(testbed.hosts[server].address, ports)
        yield DryRunStep(server, "run", listen, "listens on the ports of all treatments, for 3 s at most")
        yield DryRunStep(client, "run", connect, f"can it reach these ports of {server}?")


def notes_of_block(block: InterleavedBlock) -> Notes:
    """Return the notes of a block, whose arms have services of their own and share the other jobs."""
    attempts = block.attempts
    load, arms = attempts[0].load.name, {f"arm{arm}": attempt for arm, attempt in enumerate(attempts)}

    def note_load(step: DryRunStep) -> str:
        folder, _, name = step.args[0].removeprefix(f"jobs/{load}/").partition("/")
        if folder not in arms:
            return f"{attempts[0].workload.tool} of all treatments by turns"
        command = step.data.decode().strip() if name == "cmd" else ""
        return f"{arms[folder].planned.treatment}{command and f': {command}'}"

    jobs: dict[str, Callable[[DryRunStep], str]] = {
        load: note_load,
        block.load.calibration_name: lambda step: "its latency, for the length of slices; in the first block only",
        block.load.warmup_name: lambda step: "warm-up",
        block.monitors.name: lambda step: "monitors",
    }
    for attempt in attempts:
        jobs[attempt.host_changes.name] = partial(changes_note, attempt.host_changes)
    instances = [attempt.services.instances for attempt in attempts]
    return Notes(block.testbed, instances, jobs, list(map(page_url, attempts)))
