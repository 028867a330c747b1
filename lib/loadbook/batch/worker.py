"""The work of one job of a batch: a run, then reports, each by a command of loadbook that ends with the batch."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from loadbook.batch.commands import (
    EXIT_TIMEOUT_S,
    LAST_KINDS,
    Message,
    command_arguments,
    parse_messages,
    start_command,
)
from loadbook.core import clock
from loadbook.core.errors import LoadbookError
from loadbook.execution.select import resumes_added_blocks
from loadbook.report.parameters import format_pairs
from loadbook.store.ledger import is_run_complete, read_current_plan
from loadbook.store.paths import Layout

INTERRUPTED, ATTACHED = 130, "--attached"


@dataclass(frozen=True)
class WorkerJob:
    """A study to run, with options of `loadbook run`, and its reports (name, parameters).

    Attributes
    ----------
    run : id of the run to resume; None: a new run, or with `more` the latest one.
    blocks_after : number of blocks that the run has after the `more` blocks are added.
    folder, home : folder of the pages, and the text of their link to the batch.
    wait_s, timeout_s : seconds to wait for hosts in use; seconds that one cell of a notebook may take.
    """

    study_source: str
    study: str
    hosts: str | None = None
    subset: str | None = None
    blocks: int | None = None
    more: int | None = None
    run: str | None = None
    blocks_after: int | None = None
    wait_s: float = 0.0
    timeout_s: int = 600
    folder: str = ""
    home: str = ""
    reports: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


class RunStep(NamedTuple):
    """Arguments of `loadbook run` (None: the run is complete), and the run's id (None: it does not exist yet).

    `blocks_after` is the number of blocks after the `more` blocks are added; None for a job without `more`.
    """

    arguments: list[str] | None
    run: str | None = None
    blocks_after: int | None = None


def next_run(layout: Layout, job: WorkerJob) -> RunStep:
    """Return how a job's run is started or resumed; the `more` blocks are not added a second time."""
    options = {"--hosts": job.hosts, "--wait-limit": job.wait_s}
    if job.more:
        run = layout.resolve_run(job.study, job.run or "latest")
        paths = layout.run(job.study, run)
        blocks, complete = read_current_plan(paths).blocks, is_run_complete(paths)
        is_new = complete or not resumes_added_blocks(paths, job.more)
        after = job.blocks_after or (blocks + job.more if is_new else blocks)
        arguments = command_arguments(
            "run", job.study_source, options | {"--resume": run, "--more": job.more}, [ATTACHED]
        )
        return RunStep(None if complete and blocks >= after else arguments, run, after)
    options |= {"--subset": job.subset, "--blocks": job.blocks}
    if job.run not in layout.runs(job.study):
        return RunStep(command_arguments("run", job.study_source, options, [ATTACHED, "--new"]))
    if is_run_complete(layout.run(job.study, job.run)):
        return RunStep(None, job.run)
    return RunStep(command_arguments("run", job.study_source, options | {"--resume": job.run}, [ATTACHED]), job.run)


class Worker:
    """Executes the commands of a job, one after the other; `messages` yields what they print."""

    def __init__(self, layout: Layout, job: WorkerJob) -> None:
        self.layout, self.job = layout, job
        self.exit_code = 0  # of a command that ended without a last message, minus the signal that ended it
        self._stopped, self._lock = False, threading.RLock()  # a signal handler may call `stop` inside of `stop`
        self._process: subprocess.Popen[str] | None = None

    def messages(self) -> Iterator[Message]:
        """Yield the messages of all commands, until the last one has ended; if a report fails, others are still made.

        A message is a dict with its `kind`, as `loadbook run --events` and `loadbook report --events` print them.
        Those of a report are preceded by one of kind "report", those of a run with added blocks by one of "adding".
        """
        try:
            step = next_run(self.layout, self.job)
        except LoadbookError as error:
            yield {"kind": "failed", "error": error.message, "hint": error.hint, "exit_code": error.exit_code}
            return
        run = step.run
        if step.blocks_after:
            yield {"kind": "adding", "run": run, "blocks_after": step.blocks_after}
        if step.arguments is None:
            yield {"kind": "note", "message": f"run {run} is complete already"}
            yield {"kind": "ran", "run": run, "took_s": 0.0}
        else:
            run = (yield from self._follow(step.arguments)).get("run")
        for name, values in self.job.reports if run else ():
            yield {"kind": "report", "name": name}
            yield from self._follow(self._report_arguments(str(run), name, values))

    def _report_arguments(self, run: str, name: str, values: dict[str, Any]) -> list[str]:
        options = {"--run": run, "--to": Path(self.job.folder) / f"{name}.html", "--home": self.job.home}
        pairs = [word for pair in format_pairs(values) for word in ("-p", pair)]
        return command_arguments(
            "report", self.job.study, options | {"--timeout-s": self.job.timeout_s}, [ATTACHED, *pairs]
        )

    def _follow(self, arguments: Sequence[str]) -> Generator[Message, None, Message]:
        """Yield the messages of a command; return the last one, with the seconds that it took, {} without one."""
        began, last, pipe = clock.monotonic(), Message(), subprocess.PIPE
        try:
            with self._lock:
                if self._stopped or self.exit_code:
                    self.exit_code = self.exit_code or INTERRUPTED
                    return last
                process = self._process = start_command(self.layout, arguments, stdin=pipe, stdout=pipe)
        except (OSError, ValueError) as error:
            yield {"kind": "failed", "error": f"loadbook cannot be started: {error}", "hint": None, "exit_code": 3}
            return last
        assert process.stdout is not None
        for message in parse_messages(process.stdout):
            if message["kind"] in LAST_KINDS:
                last = message = message | {"took_s": clock.monotonic() - began}
            yield message
        code = _wait(process)
        if last.get("kind") in (None, "stopped"):
            self.exit_code = code
        return last

    def stop(self) -> None:
        """Interrupt the command that runs, like Ctrl-C, and start no other."""
        with self._lock:
            self._stopped, process = True, self._process
        if process and process.stdin:
            with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended
                process.stdin.write("stop\n")
                process.stdin.flush()


def _wait(process: subprocess.Popen[str]) -> int:
    """Wait for the end of a process (then kill it); return its exit code, or minus the signal that ended it."""
    try:
        code = process.wait(timeout=EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait(timeout=EXIT_TIMEOUT_S)
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(BrokenPipeError):
            pipe.close() if pipe else None
    return code
