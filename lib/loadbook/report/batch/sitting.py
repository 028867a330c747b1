"""One sitting at a batch: what workers say becomes rows, kept and shown after every change."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from loadbook.core.errors import DataError, LoadbookError
from loadbook.core.units import format_duration
from loadbook.records.layout import Layout
from loadbook.report import notebooks
from loadbook.report.batch import page
from loadbook.report.batch.lanes import Scheduler, WorkerProcess, Message, Worker, timetable
from loadbook.report.batch.rows import PageFiles, BatchRun, EntryRecord
from loadbook.report.batch.worker import INTERRUPTED, WorkerJob
from loadbook.report.batch.works import ReportJob, BatchJob
from loadbook.trials.progress import Progress

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
        self, layout: Layout, batch_run: BatchRun, jobs: list[BatchJob], options: BatchOptions, on_event: OnBatchEvent, start: StartWorker = WorkerProcess
    ) -> None:
        self.layout, self.batch_run, self.options, self.on_event, self.start_worker = layout, batch_run, options, on_event, start
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
        table = timetable([job for job in self.jobs if self._unfinished_reports(job)], self.options.max_parallel, self.remaining_by_job_s)
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
        for row in [self.batch_run.entry_of(report)] if report else map(self.batch_run.entry_of, self._unfinished_reports(job)):
            row.state, row.exit_code, row.reason, row.next = "failed", message["exit_code"], message["reason"], message["next"]
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
