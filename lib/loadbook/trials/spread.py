"""Work spread over an executor, so that nothing is lost: what a worker could not do is done in this process."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
OnNote = Callable[[str], None]

# a cluster that has lost all of its workers does nothing but wait; no job takes so long
WORKER_TIMEOUT_S = 600.0


def map_unordered(work: Callable[[Job], Result], jobs: Sequence[Job], executor: Executor | None, say: OnNote) -> Iterator[Result]:
    """Yield the results of all jobs, in any order.

    A job that fails on a worker (it died, it runs other code, it does not see the files) is done again in this process:
    nothing is lost, and an error of the job itself comes up here.

    Parameters
    ----------
    work : a function of a module; jobs and results are pickled.
    executor : None does everything in this process.
    say : is told when and why jobs are done again.
    """
    left = list(jobs) if executor is None else (yield from _run_on_workers(work, jobs, executor, say))
    yield from map(work, left)


def _run_on_workers(
    work: Callable[[Job], Result], jobs: Sequence[Job], executor: Executor, say: OnNote
) -> Generator[Result, None, list[Job]]:
    """Yield what workers made; return the jobs that they did not do."""
    waiting: dict[Future[Result], Job] = {}
    undone: list[Job] = []
    reasons: set[str] = set()
    try:
        waiting |= {_submit(executor, work, job): job for job in jobs}
        while waiting:
            done, _ = wait(waiting, WORKER_TIMEOUT_S, FIRST_COMPLETED)
            for future in done or list(waiting):
                job, failure = waiting.pop(future), _failure(future)
                if failure is None:
                    yield future.result()
                else:
                    undone.append(job)
                    reasons.add(failure)
    finally:
        for future in waiting:
            future.cancel()
    if undone:
        say(f"{len(undone)} of {len(jobs)} parts are done again in this process, as workers failed: {min(reasons)}")
    return undone


def _submit(executor: Executor, work: Callable[[Job], Result], job: Job) -> Future[Result]:
    """Return the job's future; one that has failed already if the executor takes nothing any more."""
    try:
        return executor.submit(work, job)
    except RuntimeError as error:  # BrokenExecutor is one
        refused: Future[Result] = Future()
        refused.set_exception(error)
        return refused


def _failure(future: Future[Result]) -> str | None:
    if not future.done():
        return f"none has answered for {WORKER_TIMEOUT_S:g} s"
    if future.cancelled():
        return "the work was cancelled"
    error = future.exception()
    return None if error is None else f"{type(error).__name__}: {error}"


@contextmanager
def worker_processes(count: int | None = None) -> Iterator[Executor]:
    """Yield an executor of processes, by default one per CPU that we may use; they end with the block, or with us."""
    pool = ProcessPoolExecutor(count or usable_cpus(), _Context(), initializer=_follow_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


class _Process(SpawnProcess):
    """A fresh interpreter that does not import the program which runs here.

    A script without the usual guard would run its studies again in every worker. (A fork instead would copy locks that
    threads of Jupyter or arrow hold.)
    """

    def start(self) -> None:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class _Context(SpawnContext):
    Process = _Process


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def _follow_parent() -> None:
    """In a worker: leave Ctrl-C to the parent, and end when it ends in whatever way."""
    gc.set_threshold(100_000, 20, 20)  # rows are many and have no cycles: looking for some takes a tenth of the time
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
