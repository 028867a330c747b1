"""Several parts of a batch at work: in the file's order, at once where neither study nor machine is another's.

One sitting at a batch: what workers say becomes rows, kept and shown after every change.
"""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from loadbook.batch import page, process
from loadbook.batch.jobs import BatchJob, BatchRun, EntryRecord, PageFiles, ReportJob
from loadbook.batch.process import INTERRUPTED, WorkerJob
from loadbook.core.errors import DataError, LoadbookError
from loadbook.core.units import format_duration
from loadbook.execution.progress import Progress
from loadbook.report import notebooks
from loadbook.store.paths import Layout

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

    def __init__(self, layout: Layout, job: process.WorkerJob) -> None:
        # a session of its own: Ctrl-C in the terminal reaches this process alone, which tells it once
        self.process = subprocess.Popen(
            [sys.executable, "-m", process.__name__, str(layout.root)],
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
        self._write(process.STOP_WORD)

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
    on_message : called with (job, what its worker said), last {"kind": "ended", "exit_code": ...}; returns False
        when nothing
        more is to be started.
    max_parallel : jobs at a time, at most.
    """

    def __init__(
        self, start: Callable[[BatchJob], Worker], on_message: Callable[[BatchJob, Message], bool], max_parallel: int
    ) -> None:
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


# work, entry (or works with several: their run), what happened, seconds that the batch is expected to take from now
OnBatchEvent = Callable[[BatchJob, str, Progress, float], None]
StartWorker = Callable[[Layout, WorkerJob], Worker]
WORKER_DIED_HINT = "somebody ended it, or the system for want of memory; what it said last stands on stderr"


@dataclass(frozen=True)
class BatchOptions:
    """How a batch is done: works at a time, whether the first failure starts no other, and limits in seconds."""

    max_parallel: int = 4
    fail_fast: bool = False
    wait_s: float = 3600.0
    timeout_s: float = notebooks.TIMEOUT_S


class BatchSession:
    """What is left of a round, done by `run`; `lanes.stop` interrupts it."""

    def __init__(
        self,
        layout: Layout,
        batch_run: BatchRun,
        jobs: list[BatchJob],
        options: BatchOptions,
        on_event: OnBatchEvent,
        start: StartWorker = WorkerProcess,
    ) -> None:
        self.layout, self.batch_run, self.options, self.on_event, self.start_worker = (
            layout,
            batch_run,
            options,
            on_event,
            start,
        )
        self.folder = layout.batch(batch_run.batch)
        self.jobs = [job for job in jobs if self._unfinished_reports(job)]
        self.remaining_by_job_s: dict[int, float] = {}
        self.current_reports: dict[int, ReportJob] = {}
        self.scheduler = Scheduler(self._start_worker, self._on_message, options.max_parallel)

    def run(self) -> None:
        """Do it all; whatever happens, the rows say how far it came."""
        self._write()
        try:
            self.scheduler.run(self.jobs)
        finally:
            if all(row.state in ("done", "failed") for row in self.batch_run.entries):
                self.batch_run.ended = time.time()
            self._write()

    @property
    def remaining_s(self) -> float:
        """Seconds that what is left is expected to take."""
        table = timetable(
            [job for job in self.jobs if self._unfinished_reports(job)],
            self.options.max_parallel,
            self.remaining_by_job_s,
        )
        return max((end for _, end in table.values()), default=0.0)

    def _unfinished_reports(self, job: BatchJob) -> list[ReportJob]:
        return [report for report in job.reports if self.batch_run.entry_of(report).state in ("waiting", "running")]

    def _start_worker(self, job: BatchJob) -> Worker:
        first = self.batch_run.entry_of(job.reports[0])
        reports = self._unfinished_reports(job)
        for report in reports:
            self.batch_run.entry_of(report).state = "running"
        self.remaining_by_job_s[id(job)] = job.expected_s
        self._write()
        known = next((row for row in map(self.batch_run.entry_of, job.reports) if row.run), first)
        worker_job = WorkerJob(
            study_source=job.study_source,
            study=job.study,
            hosts=str(job.hosts) if job.hosts else None,
            subset=job.subset,
            blocks=job.blocks,
            more=job.more,
            run=known.run,
            blocks_after=known.blocks_after,
            wait_s=self.options.wait_s,
            timeout_s=self.options.timeout_s,
            folder=str(self.folder),
            home=f"Batch {self.batch_run.batch}",
            reports=[(report.name, report.parameters) for report in reports],
        )
        return self.start_worker(self.layout, worker_job)

    def _on_message(self, job: BatchJob, message: Message) -> bool:
        """Keep what a worker said; False after a failure that ends the sitting."""
        handlers = {
            "event": self._on_event, "adding": self._on_adding, "ran": self._on_ran, "report": self._on_report,
            "reported": self._on_reported, "failed": self._on_failed, "ended": self._on_ended,
        }  # fmt: skip
        handlers[message["kind"]](job, message)
        if message["kind"] != "event":
            self._write()
        failed = any(row.state == "failed" for row in map(self.batch_run.entry_of, job.reports))
        return not (failed and self.options.fail_fast)

    def _on_event(self, job: BatchJob, message: Message) -> None:
        event = Progress(**message["event"])
        if event.run:
            self._set_run(job, event.run)
        if event.remaining_s is not None:
            self.remaining_by_job_s[id(job)] = event.remaining_s + job.expected_s - job.run_s
        self.on_event(job, message.get("name", job.name), event, self.remaining_s)

    def _on_adding(self, job: BatchJob, message: Message) -> None:
        self._set_run(job, message["run"], message["blocks_after"])

    def _set_run(self, job: BatchJob, run: str, blocks_after: int | None = None) -> None:
        for row in map(self.batch_run.entry_of, self._unfinished_reports(job)):
            row.run, row.blocks_after = run, blocks_after or row.blocks_after
        self._write()

    def _on_ran(self, job: BatchJob, message: Message) -> None:
        self._set_run(job, message["run"])
        self.batch_run.entry_of(job.reports[0]).ran_s += message["took_s"]
        self.remaining_by_job_s[id(job)] = job.expected_s - job.run_s

    def _on_report(self, job: BatchJob, message: Message) -> None:
        self.current_reports[id(job)] = next(report for report in job.reports if report.name == message["name"])

    def _on_reported(self, job: BatchJob, message: Message) -> None:
        row = self.batch_run.entry_of(self.current_reports.pop(id(job)))
        row.reported_s, row.state = message["took_s"], "done"
        row.summary, row.pages = message["summary"], [PageFiles(**one) for one in message["pages"]]
        executed = [self.folder / one.executed for one in row.pages if one.executed and not one.page]
        if message["failures"]:
            row.fail(LoadbookError("; ".join(message["failures"]), f"see {executed[0]}" if executed else None))
        elif row.summary.get("valid") == 0:
            row.fail(DataError("no trial counts", "its page says why"))
        elif gate := row.summary.get("gate"):
            row.exit_code, row.reason = gate["exit_code"], gate["sentence"] if gate["exit_code"] else None
        self._notify(job, row)

    def _on_failed(self, job: BatchJob, message: Message) -> None:
        """Keep a failure of one report, or of the run, which is one of all its reports."""
        report = self.current_reports.pop(id(job), None)
        self.batch_run.entry_of(job.reports[0]).ran_s += message.get("ran_s", 0.0)
        for row in (
            [self.batch_run.entry_of(report)] if report else map(self.batch_run.entry_of, self._unfinished_reports(job))
        ):
            row.state, row.exit_code, row.reason, row.next = (
                "failed",
                message["exit_code"],
                message["reason"],
                message["next"],
            )
            row.run = row.run if row.run in self.layout.runs(job.study) else None  # it may never have begun
            row.reported_s = message.get("took_s", 0.0)
            self._notify(job, row)

    def _on_ended(self, job: BatchJob, message: Message) -> None:
        """Keep how rows without an end of their own ended: stopped, or with a worker that died."""
        code = message["exit_code"]
        self.remaining_by_job_s.pop(id(job), None)
        for row in map(self.batch_run.entry_of, self._unfinished_reports(job)):
            if self.scheduler.stops or code == INTERRUPTED:
                row.state = "stopped"
            else:
                how = f"by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"with exit code {code}"
                row.fail(LoadbookError(f"its process ended {how}", WORKER_DIED_HINT))
            self._notify(job, row)

    def _notify(self, job: BatchJob, row: EntryRecord) -> None:
        took_s = row.ran_s + row.reported_s
        took, why = f", {format_duration(took_s)}" if took_s else "", f": {row.reason}" if row.reason else ""
        rows = self.batch_run.entries
        over = f"{sum(one.state in ('done', 'failed') for one in rows)} of {len(rows)} entries are over"
        self.on_event(job, row.name, Progress("note", f"{row.state}{took}{why}; {over}"), self.remaining_s)

    def _write(self) -> None:
        self.batch_run.write(self.folder)
        page.write_batch_page(self.folder, self.batch_run)
