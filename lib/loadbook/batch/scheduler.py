"""The scheduler of a batch: jobs start in the file's order, in parallel if they share neither study nor machine.

A batch run is one execution of a batch file. A session is one process that executes the unfinished jobs of a batch run;
it updates the run's record from the messages of its worker processes.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadbook.batch.commands import Message
from loadbook.batch.index import write_batch_page
from loadbook.batch.jobs import BatchJob, BatchRun, EntryRecord, PageFiles, ReportJob
from loadbook.batch.worker import INTERRUPTED, Worker, WorkerJob
from loadbook.core import clock
from loadbook.core.errors import DataError, LoadbookError
from loadbook.core.units import format_duration
from loadbook.execution.progress import KINDS, Progress
from loadbook.report import notebooks
from loadbook.store.paths import Layout


class Scheduler:
    """Runs jobs by workers: `run` runs all of them; a signal handler may call `stop` in the meantime.

    Parameters
    ----------
    start : makes the worker of a job.
    on_message : called with (job, message of its worker), the last one being {"kind": "ended", "exit_code": ...};
        returns False if no further job may start.
    max_parallel : maximum number of jobs at the same time.
    """

    def __init__(
        self, start: Callable[[BatchJob], Worker], on_message: Callable[[BatchJob, Message], bool],
        max_parallel: int,
    ) -> None:  # fmt: skip
        self.start, self.on_message, self.max_parallel = start, on_message, max_parallel
        self.active: dict[int, tuple[BatchJob, Worker]] = {}
        self.messages: queue.SimpleQueue[tuple[int, Message]] = queue.SimpleQueue()
        self.stops = 0

    def run(self, jobs: Sequence[BatchJob]) -> None:
        """Run the jobs; each starts when no active or earlier waiting job needs the same machines or study."""
        waiting, more = list(jobs), True
        while True:
            active = [job for job, _ in self.active.values()]
            while more and not self.stops and (job := next_startable(waiting, active, self.max_parallel)):
                waiting.remove(job)
                active.append(job)
                self._start_worker(job)
            if not self.active:
                return
            number, message = self.messages.get()
            job, _ = self.active[number]
            if message["kind"] == "ended":
                del self.active[number]
            more = self.on_message(job, message) and more

    def stop(self) -> None:
        """Interrupt every worker and start no other; a second call interrupts the workers again, so that none waits."""
        self.stops += 1
        for _, worker in list(self.active.values()):
            worker.stop()

    def _start_worker(self, job: BatchJob) -> None:
        number, worker = id(job), self.start(job)
        self.active[number] = (job, worker)

        def listen() -> None:
            try:
                for message in worker.messages():
                    self.messages.put((number, message))
            finally:
                self.messages.put((number, {"kind": "ended", "exit_code": worker.exit_code}))

        threading.Thread(target=listen, daemon=True).start()
        if self.stops:  # `stop` was called while this worker started
            worker.stop()


def next_startable(waiting: Sequence[BatchJob], active: Sequence[BatchJob], max_parallel: int) -> BatchJob | None:
    """Return the first waiting job that may start while the active ones run; None if none may.

    It must not share a study or machine with an active job, or with an earlier job that waits. A job that uses the lab
    on this machine runs alone.
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
    jobs: Sequence[BatchJob], max_parallel: int, remaining_s: Mapping[int, float] | None = None
) -> dict[int, tuple[float, float]]:
    """Return id(job) -> expected start and end of the job, in seconds from now.

    `remaining_s`: id(job) -> expected seconds until the end of an active job; jobs that are not in it wait.
    """
    ends = {id(job): remaining_s[id(job)] for job in jobs if remaining_s and id(job) in remaining_s}
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


# arguments: job, name of its entry (or of a run shared by entries), event, expected seconds to the end of the batch
OnBatchEvent = Callable[[BatchJob, str, Progress, float], None]
StartWorker = Callable[[Layout, WorkerJob], Worker]
WORKER_DIED_HINT = "someone killed it, or the kernel did for lack of memory; its last lines are on stderr"


@dataclass(frozen=True)
class BatchOptions:
    """Options of a batch: maximum number of jobs at the same time, and whether to start no other after a failure.

    `wait_s`: seconds to wait for hosts in use. `timeout_s`: seconds that one cell of a notebook may take.
    """

    max_parallel: int = 4
    fail_fast: bool = False
    wait_s: float = 3600.0
    timeout_s: int = notebooks.TIMEOUT_S


class BatchSession:
    """Executes the unfinished jobs of a batch run; `scheduler.stop` interrupts it.

    `on_event` is called with (job, name of its entry, event, expected seconds to the end of the batch).
    """

    def __init__(
        self, layout: Layout, batch_run: BatchRun, jobs: list[BatchJob], options: BatchOptions, on_event: OnBatchEvent,
        start: StartWorker = Worker,
    ) -> None:  # fmt: skip
        self.layout, self.batch_run, self.options, self.on_event = layout, batch_run, options, on_event
        self.start_worker, self.folder = start, layout.batch(batch_run.batch)
        self.jobs = [job for job in jobs if self._unfinished_reports(job)]
        self.remaining_by_job_s: dict[int, float] = {}
        self.current_reports: dict[int, ReportJob] = {}
        self.scheduler = Scheduler(self._start_worker, self._on_message, options.max_parallel)

    def run(self) -> None:
        """Execute the unfinished jobs; the entries are up to date even if it is interrupted."""
        self._write()
        try:
            self.scheduler.run(self.jobs)
        finally:
            if all(entry.state in ("done", "failed") for entry in self.batch_run.entries):
                self.batch_run.ended = clock.now()
            self._write()

    @property
    def remaining_s(self) -> float:
        """Expected seconds until all unfinished jobs have ended."""
        jobs = [job for job in self.jobs if self._unfinished_reports(job)]
        times = timetable(jobs, self.options.max_parallel, self.remaining_by_job_s)
        return max((end for _, end in times.values()), default=0.0)

    def _unfinished_reports(self, job: BatchJob) -> list[ReportJob]:
        return [report for report in job.reports if self.batch_run.entry_of(report).state in ("waiting", "running")]

    def _unfinished_entries(self, job: BatchJob) -> list[EntryRecord]:
        return [self.batch_run.entry_of(report) for report in self._unfinished_reports(job)]

    def _start_worker(self, job: BatchJob) -> Worker:
        for entry in self._unfinished_entries(job):
            entry.state = "running"
        self.remaining_by_job_s[id(job)] = job.expected_s
        self._write()
        entries = [self.batch_run.entry_of(report) for report in job.reports]
        known = next((entry for entry in entries if entry.run), entries[0])
        worker_job = WorkerJob(
            study_source=job.study_source, study=job.study, hosts=str(job.hosts) if job.hosts else None,
            subset=job.subset, blocks=job.blocks, more=job.more, run=known.run, blocks_after=known.blocks_after,
            wait_s=self.options.wait_s, timeout_s=self.options.timeout_s, folder=str(self.folder),
            home=f"Batch {self.batch_run.batch}",
            reports=[(report.name, report.parameters) for report in self._unfinished_reports(job)],
        )  # fmt: skip
        return self.start_worker(self.layout, worker_job)

    def _on_message(self, job: BatchJob, message: Message) -> bool:
        """Process a worker's message; return False after a failure if no further job may start."""
        handlers = {
            "adding": self._on_adding, "ran": self._on_ran, "report": self._on_report, "reported": self._on_reported,
            "failed": self._on_failed, "ended": self._on_ended,
        }  # fmt: skip
        if message["kind"] in KINDS:
            event, report = Progress.from_message(message), self.current_reports.get(id(job))
            if event.run:
                self._set_run(job, event.run)
            if event.remaining_s is not None:
                self.remaining_by_job_s[id(job)] = event.remaining_s + job.expected_s - job.run_s
            self.on_event(job, report.name if report else job.name, event, self.remaining_s)
        elif handler := handlers.get(message["kind"]):
            handler(job, message)
            self._write()
        failed = any(self.batch_run.entry_of(report).state == "failed" for report in job.reports)
        return not (failed and self.options.fail_fast)

    def _on_adding(self, job: BatchJob, message: Message) -> None:
        self._set_run(job, message["run"], message["blocks_after"])

    def _set_run(self, job: BatchJob, run: str, blocks_after: int | None = None) -> None:
        for entry in self._unfinished_entries(job):
            entry.run, entry.blocks_after = run, blocks_after or entry.blocks_after
        self._write()

    def _on_ran(self, job: BatchJob, message: Message) -> None:
        self._set_run(job, message["run"])
        self.batch_run.entry_of(job.reports[0]).ran_s += message["took_s"]
        self.remaining_by_job_s[id(job)] = job.expected_s - job.run_s

    def _on_report(self, job: BatchJob, message: Message) -> None:
        self.current_reports[id(job)] = next(report for report in job.reports if report.name == message["name"])

    def _on_reported(self, job: BatchJob, message: Message) -> None:
        entry = self.batch_run.entry_of(self.current_reports.pop(id(job)))
        entry.reported_s, entry.state = message["took_s"], "done"
        entry.summary = message["summary"]
        entry.pages = [
            PageFiles(notebook=notebook, page=page and Path(page).name, executed=executed and Path(executed).name)
            for notebook, (page, executed) in message["files"].items()
        ]
        executed = [self.folder / files.executed for files in entry.pages if files.executed and not files.page]
        if message["failed"]:
            entry.fail(LoadbookError("; ".join(message["failed"]), f"see {executed[0]}" if executed else None))
        elif entry.summary.get("valid") == 0:
            entry.fail(DataError("no trial counts", "its page says why"))
        elif ci := entry.summary.get("gate"):
            entry.exit_code, entry.reason = ci["exit_code"], ci["sentence"] if ci["exit_code"] else None
        self._notify(job, entry)

    def _on_failed(self, job: BatchJob, message: Message) -> None:
        """Record the failure of one report, or that of the run in the entries of all its reports."""
        report = self.current_reports.pop(id(job), None)
        took_s = message.get("took_s", 0.0)
        if report is None:
            self.batch_run.entry_of(job.reports[0]).ran_s += took_s
        for entry in [self.batch_run.entry_of(report)] if report else self._unfinished_entries(job):
            entry.state, entry.exit_code = "failed", message["exit_code"]
            entry.reason, entry.next = message["error"], message["hint"]
            entry.run = entry.run if entry.run in self.layout.runs(job.study) else None  # it may not have started
            entry.reported_s = took_s if report else 0.0
            self._notify(job, entry)

    def _on_ended(self, job: BatchJob, message: Message) -> None:
        """Record the end of unfinished entries of a worker that has ended: stopped, or failed because it died."""
        code = message["exit_code"]
        self.remaining_by_job_s.pop(id(job), None)
        for entry in self._unfinished_entries(job):
            if self.scheduler.stops or code == INTERRUPTED:
                entry.state = "stopped"
            else:
                how = f"by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"with exit code {code}"
                entry.fail(LoadbookError(f"its process ended {how}", WORKER_DIED_HINT))
            self._notify(job, entry)

    def _notify(self, job: BatchJob, entry: EntryRecord) -> None:
        took = f", {format_duration(entry.took_s)}" if entry.took_s else ""
        reason = f": {entry.reason}" if entry.reason else ""
        entries = self.batch_run.entries
        over = f"{sum(other.state in ('done', 'failed') for other in entries)} of {len(entries)} entries are over"
        self.on_event(job, entry.name, Progress("note", f"{entry.state}{took}{reason}; {over}"), self.remaining_s)

    def _write(self) -> None:
        self.batch_run.write(self.folder)
        write_batch_page(self.folder, self.batch_run)
