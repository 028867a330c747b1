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
from loadbook.report.batch.works import Work

Said = dict[str, Any]
# how long a worker that has told everything may take to end
END_S = 60.0


class Worker(Protocol):
    """A process that does one work."""

    def lines(self) -> Iterator[Said]:
        """Yield what it tells until it ends."""

    def stop(self) -> None:
        """Interrupt it, as Ctrl-C does."""

    def end(self) -> int:
        """Wait for its end and return its exit code, negative for the signal that ended it."""


class Process:
    """A worker in a process of its own; it ends with this one, whatever ends that."""

    def __init__(self, layout: Layout, job: worker.Job) -> None:
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

    def lines(self) -> Iterator[Said]:
        """Yield what it tells until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):  # half a line of one that was killed
                yield json.loads(line)

    def stop(self) -> None:
        """Interrupt it, as Ctrl-C does."""
        self._write(worker.STOP)

    def end(self) -> int:
        """Wait for its end and return its exit code, negative for the signal that ended it; it has told everything."""
        try:
            code = self.process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait(timeout=END_S)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close() if pipe else None
        return code


class Lanes:
    """Works being done: `run` does them all, `stop` may be called from a signal handler meanwhile.

    Parameters
    ----------
    start : begins a worker for a work.
    on_said : is told (work, what its worker said), last {"kind": "ended", "exit_code": ...}; returns False when nothing
        more is to be started.
    jobs : works at a time, at most.
    """

    def __init__(self, start: Callable[[Work], Worker], on_said: Callable[[Work, Said], bool], jobs: int) -> None:
        self.start, self.on_said, self.jobs = start, on_said, jobs
        self.active: dict[int, tuple[Work, Worker]] = {}
        self.said: queue.SimpleQueue[tuple[int, Said]] = queue.SimpleQueue()
        self.stops = 0

    def run(self, works: Sequence[Work]) -> None:
        """Do the works, each as soon as those before it in the file leave it its machines and its study."""
        waiting, more = list(works), True
        while True:
            while more and not self.stops and (work := self.next(waiting)):
                waiting.remove(work)
                self._begin(work)
            if not self.active:
                return
            number, said = self.said.get()
            work, _ = self.active[number]
            if said["kind"] == "ended":
                del self.active[number]
            more = self.on_said(work, said) and more

    def next(self, waiting: Sequence[Work]) -> Work | None:
        """Return the first work that may begin now."""
        return startable(waiting, [work for work, _ in self.active.values()], self.jobs)

    def stop(self) -> None:
        """Interrupt every worker, and start no other; again: have them not wait for anything either."""
        self.stops += 1
        for _, one in list(self.active.values()):
            one.stop()

    def _begin(self, work: Work) -> None:
        number, one = id(work), self.start(work)
        self.active[number] = (work, one)

        def listen() -> None:
            for said in one.lines():
                self.said.put((number, said))
            self.said.put((number, {"kind": "ended", "exit_code": one.end()}))

        threading.Thread(target=listen, daemon=True).start()
        if self.stops:  # it was told while this one began
            one.stop()


def startable(waiting: Sequence[Work], active: Sequence[Work], jobs: int) -> Work | None:
    """Return the first work that may begin beside those at work; None where none may.

    It shares neither study nor machine with them, nor with a work before it that waits. What measures on this machine
    is alone.
    """
    if len(active) >= jobs or any(work.machines is None for work in active):
        return None
    studies = {work.study for work in active}
    machines = {machine for work in active for machine in work.machines or ()}
    for work in waiting:
        if work.machines is None:
            return None if studies else work
        if work.study not in studies and not work.machines & machines:
            return work
        studies.add(work.study)
        machines |= work.machines
    return None


def timetable(
    works: Sequence[Work], jobs: int, left_s: Mapping[int, float] | None = None
) -> dict[int, tuple[float, float]]:
    """Return id(work) -> when it is expected to begin and to end, seconds from now.

    `left_s` are the works that are going on (by their id), with the seconds that they still take.
    """
    going = dict(left_s or {})
    ends = {id(work): going[id(work)] for work in works if id(work) in going}
    times = {key: (0.0, end) for key, end in ends.items()}
    waiting, now = [work for work in works if id(work) not in ends], 0.0
    while waiting:
        active = [work for work in works if ends.get(id(work), -1.0) > now]
        work = startable(waiting, active, jobs)
        if work is None:
            now = min(end for end in ends.values() if end > now)
            continue
        waiting.remove(work)
        ends[id(work)] = now + work.expected_s
        times[id(work)] = (now, ends[id(work)])
    return times
