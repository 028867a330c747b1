"""The steps of a block whose treatments are measured together, for a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from loadbook.execution.arms import ArmsBlock
from loadbook.execution.arms_requirements import MEMORY_SCRIPT, PERL_CHECK, port_commands, ports_of_later_arms
from loadbook.execution.attempt import Attempt
from loadbook.execution.dry_run import PHASE_TITLES, DryRun, Notes, changes_note, page_url, with_titles
from loadbook.hosts.dry import DryRunStep
from loadbook.hosts.jobs import WARMUP_SUFFIX

JobNote = Callable[[DryRunStep], str]  # tells what a step of a job is for


@contextmanager
def planned_attempts(run: DryRun, longest_s: float) -> Iterator[list[Attempt]]:
    """Yield an attempt at each trial of the plan's first block that runs together, in a folder for this time.

    `longest_s` is the time after which the load of a block counts as hung.
    """
    plan = run.testbed.plan
    first = next(planned.block for planned in plan.trials if plan.mode.runs_together(plan, planned.block))
    planned_arms = [planned for planned in plan.trials if planned.block == first]
    with TemporaryDirectory(prefix="loadbook-dry-run-") as folder:
        attempts = []
        for arm, planned in enumerate(planned_arms):
            own = Path(folder) / planned.trial
            own.mkdir()
            attempts.append(Attempt(run.testbed, planned, 1, own, arm, longest_s))
        yield attempts


def arms_phases(run: DryRun, block: ArmsBlock, jobs: Mapping[str, JobNote]) -> list[tuple[str, list[DryRunStep]]]:
    """Execute a block on the recording hosts and return its phases with their steps.

    `jobs` leads from names of jobs to notes on their steps.
    """
    attempts = block.attempts
    notes, steps = _notes_of_block(block, attempts, jobs), dict[str, list[DryRunStep]]()
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


def _notes_of_block(block: ArmsBlock, attempts: Sequence[Attempt], jobs: Mapping[str, JobNote]) -> Notes:
    """Return the notes of a block, whose arms have services of their own and share the other jobs."""
    all_jobs: dict[str, JobNote] = {
        f"{block.load_name}{WARMUP_SUFFIX}": lambda step: "warm-up",
        block.monitors.name: lambda step: "monitors",
        **jobs,
    }
    for attempt in attempts:
        all_jobs[attempt.host_changes.name] = partial(changes_note, attempt.host_changes)
    instances = [attempt.services.instances for attempt in attempts]
    return Notes(block.testbed, instances, all_jobs, list(map(page_url, attempts)))


def check_steps(run: DryRun, use_of_perl: str) -> Iterator[DryRunStep]:
    """Yield the steps that check perl, memory and ports for all treatments at once; `use_of_perl` is a note."""
    testbed = run.testbed
    for alias in testbed.drivers:
        yield DryRunStep(alias, "run", PERL_CHECK, use_of_perl)
    for alias in run.hosts:
        yield DryRunStep(alias, "script", (MEMORY_SCRIPT,), "memory for all treatments at once")
    for (client, server), ports in ports_of_later_arms(testbed).items():
        listen, connect = port_commands(testbed.hosts[server].address, ports)
        yield DryRunStep(server, "run", listen, "listens on the ports of all treatments, for 3 s at most")
        yield DryRunStep(client, "run", connect, f"can it reach these ports of {server}?")
