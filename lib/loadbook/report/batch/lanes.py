"""Several parts of a batch at work: in the file's order, at once where neither study nor machine is another's."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from loadbook.records.layout import Layout
from loadbook.report.batch import worker
from loadbook.report.batch.works import BatchJob

Message = dict[str, Any]
# how long a worker that has told everything may take to end
WORKER_EXIT_TIMEOUT_S = 60.0


class Worker(Protocol):
    """A process that does one work."""

    def messages(self) -> Iterator[Message]:
        """Yield what it tells until it ends."""

    def stop(self) -> None:
        """Interrupt it, as Ctrl-C does."""

    def wait(self) -> int:
        """Wait for its end and return its exit code, negative for the signal that ended it."""


class WorkerProcess:
    """A worker in a process of its own; it ends with this one, whatever ends that."""

    def __init__(self, layout: Layout, job: worker.WorkerJob) -> None:
        # a session of its own: Ctrl-C in the terminal reaches this process alone, which tells it once
        self.process = subprocess.Popen(
            [sys.executable, "-m", worker.__name__, str(layout.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=layout.root,
        )
        self._write(json.dumps(asdict(job)))

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def messages(self) -> Iterator[Message]:
        """Yield what it tells until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):  # half a line of one that was killed
                yield json.loads(line)

    def stop(self) -> None:
        """Interrupt it, as Ctrl-C does."""
        self._write(worker.STOP_WORD)

    def wait(self) -> int:
        """Wait for its end and return its exit code, negative for the signal that ended it; it has told everything."""
        try:
            code = self.process.wait(timeout=WORKER_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait(timeout=WORKER_EXIT_TIMEOUT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close() if pipe else None
        return code


class Scheduler:
    """Works being done: `run` does them all, `stop` may be called from a signal handler meanwhile.

    Parameters
    ----------
    start : begins a worker for a work.
    on_message : called with (job, what its worker said), last {"kind": "ended", "exit_code": ...}; returns False when nothing
        more is to be started.
    max_parallel : jobs at a time, at most.
    """

    def __init__(self, start: Callable[[BatchJob], Worker], on_message: Callable[[BatchJob, Message], bool], max_parallel: int) -> None:
        self.start, self.on_message, self.max_parallel = start, on_message, max_parallel
        self.active: dict[int, tuple[BatchJob, Worker]] = {}
        self.messages: queue.SimpleQueue[tuple[int, Message]] = queue.SimpleQueue()
        self.stops = 0

    def run(self, jobs: Sequence[BatchJob]) -> None:
        """Do the works, each as soon as those before it in the file leave it its machines and its study."""
        waiting, more = list(jobs), True
        while True:
            while more and not self.stops and (job := self.next_job(waiting)):
                waiting.remove(job)
                self._start_worker(job)
            if not self.active:
                return
            number, message = self.messages.get()
            job, _ = self.active[number]
            if message["kind"] == "ended":
                del self.active[number]
            more = self.on_message(job, message) and more

    def next_job(self, waiting: Sequence[BatchJob]) -> BatchJob | None:
        """Return the first work that may begin now."""
        return next_startable(waiting, [work for work, _ in self.active.values()], self.max_parallel)

    def stop(self) -> None:
        """Interrupt every worker, and start no other; again: have them not wait for anything either."""
        self.stops += 1
        for _, one in list(self.active.values()):
            one.stop()

    def _start_worker(self, job: BatchJob) -> None:
        number, worker_process = id(job), self.start(job)
        self.active[number] = (job, worker_process)

        def listen() -> None:
            for message in worker_process.messages():
                self.messages.put((number, message))
            self.messages.put((number, {"kind": "ended", "exit_code": worker_process.wait()}))

        threading.Thread(target=listen, daemon=True).start()
        if self.stops:  # it was told while this one began
            worker_process.stop()


def next_startable(waiting: Sequence[BatchJob], active: Sequence[BatchJob], max_parallel: int) -> BatchJob | None:
    """Return the first work that may begin beside those at work; None where none may.

    It shares neither study nor machine with them, nor with a work before it that waits. What measures on this machine
    is alone.
    """
    if len(active) >= max_parallel or any(job.machines is None for job in active):
        return None
    studies = {job.study for job in active}
    machines = {machine for job in active for machine in job.machines or ()}
    for job in waiting:
        if job.machines is None:
            return None if studies else job
        if job.study not in studies and not job.machines & machines:
            return job
        studies.add(job.study)
        machines |= job.machines
    return None


def timetable(
    jobs: Sequence[BatchJob], max_parallel: int, left_s: Mapping[int, float] | None = None
) -> dict[int, tuple[float, float]]:
    """Return id(work) -> when it is expected to begin and to end, seconds from now.

    `left_s` are the jobs that are going on (by their id), with the seconds that they still take.
    """
    going = dict(left_s or {})
    ends = {id(job): going[id(job)] for job in jobs if id(job) in going}
    times = {key: (0.0, end) for key, end in ends.items()}
    waiting, now = [job for job in jobs if id(job) not in ends], 0.0
    while waiting:
        active = [job for job in jobs if ends.get(id(job), -1.0) > now]
        job = next_startable(waiting, active, max_parallel)
        if job is None:
            now = min(end for end in ends.values() if end > now)
            continue
        waiting.remove(job)
        ends[id(job)] = now + job.expected_s
        times[id(job)] = (now, ends[id(job)])
    return times
