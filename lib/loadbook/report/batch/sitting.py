"""One sitting at a batch: what workers say becomes rows, kept and shown after every change."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from loadbook.core.errors import DataError, LoadbookError
from loadbook.core.units import seconds
from loadbook.records.layout import Layout
from loadbook.report import notebooks
from loadbook.report.batch import page
from loadbook.report.batch.lanes import Lanes, Process, Said, Worker, timetable
from loadbook.report.batch.rows import Made, Round, Row
from loadbook.report.batch.worker import INTERRUPTED, Job
from loadbook.report.batch.works import Report, Work
from loadbook.trials.progress import Progress

# work, entry (or works with several: their run), what happened, seconds that the batch is expected to take from now
OnEvent = Callable[[Work, str, Progress, float], None]
Start = Callable[[Layout, Job], Worker]
DIED = "somebody ended it, or the system for want of memory; what it said last stands on stderr"


@dataclass(frozen=True)
class How:
    """How a batch is done: works at a time, whether the first failure starts no other, and limits in seconds."""

    jobs: int = 4
    fail_fast: bool = False
    wait_s: float = 3600.0
    timeout_s: float = notebooks.TIMEOUT_S


class Sitting:
    """What is left of a round, done by `run`; `lanes.stop` interrupts it."""

    def __init__(
        self, layout: Layout, round_: Round, works: list[Work], how: How, on_event: OnEvent, start: Start = Process
    ) -> None:
        self.layout, self.round, self.how, self.on_event, self.begin = layout, round_, how, on_event, start
        self.folder = layout.batch(round_.batch)
        self.works = [work for work in works if self._left(work)]
        self.left_s: dict[int, float] = {}
        self.at: dict[int, Report] = {}
        self.lanes = Lanes(self._start, self._said, how.jobs)

    def run(self) -> None:
        """Do it all; whatever happens, the rows say how far it came."""
        self._keep()
        try:
            self.lanes.run(self.works)
        finally:
            if all(row.state in ("done", "failed") for row in self.round.entries):
                self.round.ended = time.time()
            self._keep()

    @property
    def remaining_s(self) -> float:
        """Seconds that what is left is expected to take."""
        table = timetable([work for work in self.works if self._left(work)], self.how.jobs, self.left_s)
        return max((end for _, end in table.values()), default=0.0)

    def _left(self, work: Work) -> list[Report]:
        return [report for report in work.reports if self.round.row(report).state in ("waiting", "running")]

    def _start(self, work: Work) -> Worker:
        first = self.round.row(work.reports[0])
        left = self._left(work)
        for report in left:
            self.round.row(report).state = "running"
        self.left_s[id(work)] = work.expected_s
        self._keep()
        known = next((row for row in map(self.round.row, work.reports) if row.run), first)
        job = Job(
            given=work.given,
            study=work.study,
            hosts=str(work.hosts) if work.hosts else None,
            subset=work.subset,
            blocks=work.blocks,
            more=work.more,
            run=known.run,
            blocks_after=known.blocks_after,
            wait_s=self.how.wait_s,
            timeout_s=self.how.timeout_s,
            folder=str(self.folder),
            home=f"Batch {self.round.batch}",
            reports=[(report.name, report.parameters) for report in left],
        )
        return self.begin(self.layout, job)

    def _said(self, work: Work, said: Said) -> bool:
        """Keep what a worker said; False after a failure that ends the sitting."""
        heard = {
            "event": self._event, "adding": self._adding, "ran": self._ran, "report": self._report,
            "reported": self._reported, "failed": self._failed, "ended": self._ended,
        }  # fmt: skip
        heard[said["kind"]](work, said)
        if said["kind"] != "event":
            self._keep()
        failed = any(row.state == "failed" for row in map(self.round.row, work.reports))
        return not (failed and self.how.fail_fast)

    def _event(self, work: Work, said: Said) -> None:
        event = Progress(**said["event"])
        if event.run:
            self._begun(work, event.run)
        if event.remaining_s is not None:
            self.left_s[id(work)] = event.remaining_s + work.expected_s - work.run_s
        self.on_event(work, said.get("name", work.name), event, self.remaining_s)

    def _adding(self, work: Work, said: Said) -> None:
        self._begun(work, said["run"], said["blocks_after"])

    def _begun(self, work: Work, run: str, blocks_after: int | None = None) -> None:
        for row in map(self.round.row, self._left(work)):
            row.run, row.blocks_after = run, blocks_after or row.blocks_after
        self._keep()

    def _ran(self, work: Work, said: Said) -> None:
        self._begun(work, said["run"])
        self.round.row(work.reports[0]).ran_s += said["took_s"]
        self.left_s[id(work)] = work.expected_s - work.run_s

    def _report(self, work: Work, said: Said) -> None:
        self.at[id(work)] = next(report for report in work.reports if report.name == said["name"])

    def _reported(self, work: Work, said: Said) -> None:
        row = self.round.row(self.at.pop(id(work)))
        row.reported_s, row.state = said["took_s"], "done"
        row.summary, row.pages = said["summary"], [Made(**one) for one in said["pages"]]
        kept = [self.folder / one.executed for one in row.pages if one.executed and not one.page]
        if said["failures"]:
            row.fail(LoadbookError("; ".join(said["failures"]), f"see {kept[0]}" if kept else None))
        elif row.summary.get("valid") == 0:
            row.fail(DataError("no trial counts", "its page says why"))
        elif gate := row.summary.get("gate"):
            row.exit_code, row.reason = gate["exit_code"], gate["sentence"] if gate["exit_code"] else None
        self._told(work, row)

    def _failed(self, work: Work, said: Said) -> None:
        """Keep a failure of one report, or of the run, which is one of all its reports."""
        at = self.at.pop(id(work), None)
        self.round.row(work.reports[0]).ran_s += said.get("ran_s", 0.0)
        for row in [self.round.row(at)] if at else map(self.round.row, self._left(work)):
            row.state, row.exit_code, row.reason, row.next = "failed", said["exit_code"], said["reason"], said["next"]
            row.run = row.run if row.run in self.layout.runs(work.study) else None  # it may never have begun
            row.reported_s = said.get("took_s", 0.0)
            self._told(work, row)

    def _ended(self, work: Work, said: Said) -> None:
        """Keep how rows without an end of their own ended: stopped, or with a worker that died."""
        code = said["exit_code"]
        self.left_s.pop(id(work), None)
        for row in map(self.round.row, self._left(work)):
            if self.lanes.stops or code == INTERRUPTED:
                row.state = "stopped"
            else:
                how = f"by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"with exit code {code}"
                row.fail(LoadbookError(f"its process ended {how}", DIED))
            self._told(work, row)

    def _told(self, work: Work, row: Row) -> None:
        took_s = row.ran_s + row.reported_s
        took, why = f", {seconds(took_s)}" if took_s else "", f": {row.reason}" if row.reason else ""
        rows = self.round.entries
        over = f"{sum(one.state in ('done', 'failed') for one in rows)} of {len(rows)} entries are over"
        self.on_event(work, row.name, Progress("note", f"{row.state}{took}{why}; {over}"), self.remaining_s)

    def _keep(self) -> None:
        self.round.keep(self.folder)
        page.write(self.folder, self.round)
