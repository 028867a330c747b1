"""Runs in separate processes: that of a batch ends with the batch, that of a notebook continues without its kernel.

`python -m loadbook.batch.process ROOT` reads a job from the first line of stdin, runs the study, then makes the
reports of the job. Messages about its progress are sent to the batch as lines of JSON on stdout, or, for a notebook,
stored in the file `.progress.json` of the study's folder, which any notebook may read. The word `stop` on stdin
interrupts a batch's process like Ctrl-C; the end of stdin ends it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loadbook.core import clock
from loadbook.core.errors import LoadbookError
from loadbook.core.units import format_duration
from loadbook.execution.progress import LockPolicy, Progress
from loadbook.hosts.jobs import process_start_ticks
from loadbook.store.atomic import DISK_FULL_ERRNOS, DISK_FULL_HINT, disk_full_message
from loadbook.store.paths import Layout
from loadbook.store.trial_record import write_json

MODULE = "loadbook.batch.process"
INTERRUPTED = 130
STOP_WORD = "stop"
STATE_FILE, LOG_FILE = ".progress.json", ".progress.log"
# seconds in which a process must end after it was interrupted or has sent its last message
EXIT_TIMEOUT_S = 60.0
INTERNAL_HINT = f"a defect of loadbook: the traceback is on stderr, of a run in a notebook in its {LOG_FILE}"

MAX_NOTES = 5
STARTING = "starting: hosts, tools and every configuration are checked first"

Message = dict[str, Any]
SendMessage = Callable[..., None]  # arguments: the kind of a worker's message, and its fields by keyword


@dataclass(frozen=True)
class WorkerJob:
    """The work of one process: a study to run, with arguments of `run_study`, and the reports (name, parameters).

    Attributes
    ----------
    run : id of the run to resume; None for none.
    new : whether to start a new run; None starts one unless `run` exists.
    blocks_after : number of blocks that the run has after the `more` blocks are added.
    state_folder : folder in which the state of the run is stored; None: messages are written to stdout for the batch.
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
    new: bool | None = None
    blocks_after: int | None = None
    state_folder: str | None = None
    wait_s: float = 0.0
    timeout_s: float = 0.0
    folder: str = ""
    home: str = ""
    reports: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


def _start(layout: Layout, job: WorkerJob, **streams: Any) -> subprocess.Popen[str]:
    """Start the process of a job in its own session, so that Ctrl-C on our terminal does not reach it."""
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, str(layout.root)],
        stdin=subprocess.PIPE, text=True, start_new_session=True, cwd=layout.root, **streams,
    )  # fmt: skip
    _write_line(process, json.dumps(asdict(job)))
    return process


def _write_line(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(line + "\n")
        process.stdin.flush()


class WorkerProcess:
    """The process of a batch's job; it ends when this process ends, even if this one is killed."""

    def __init__(self, layout: Layout, job: WorkerJob) -> None:
        self.process = _start(layout, job, stdout=subprocess.PIPE)

    def messages(self) -> Iterator[Message]:
        """Yield the messages of the process until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):  # an incomplete line of a killed process
                yield json.loads(line)

    def stop(self) -> None:
        """Interrupt the process like Ctrl-C."""
        _write_line(self.process, STOP_WORD)

    def wait(self) -> int:
        """Wait for the end of the process (then kill it); return its exit code, or minus the signal that ended it."""
        try:
            code = self.process.wait(timeout=EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait(timeout=EXIT_TIMEOUT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close() if pipe else None
        return code


@dataclass
class RunState:
    """Progress of a run, updated by its events.

    Attributes
    ----------
    pid, process_start : id of the process of the run, and its start time (clock ticks since boot).
    started, event_time : start of the run and time of the last event, epoch seconds.
    event : the last event about a trial.
    notes : the last messages that are not about a trial.
    not_ok : status -> trials that ended with it, except "ok".
    estimates : label, change so far (ratio minus 1) and number of blocks of each treatment.
    ended : None while it runs, then {"run": id} or {"error", "hint", "exit_code"}, with "at" (epoch seconds).
    """

    study: str
    pid: int = 0
    process_start: int = 0
    started: float = field(default_factory=clock.now)
    event: Progress | None = None
    event_time: float = 0.0
    notes: list[str] = field(default_factory=list)
    not_ok: dict[str, int] = field(default_factory=dict)
    estimates: list[list[Any]] = field(default_factory=list)
    ended: dict[str, Any] | None = None

    def update(self, event: Progress) -> None:
        """Update the state with one event."""
        if event.kind == "note":
            self.notes = [*self.notes, event.message][-MAX_NOTES:]
            return
        self.event, self.event_time = event, clock.now()
        if event.kind == "trial-ended" and event.status != "ok":
            status = str(event.status)
            self.not_ok[status] = self.not_ok.get(status, 0) + 1

    @property
    def completes_block(self) -> bool:
        """Whether the last event ended the last trial of a block."""
        event = self.event
        if event is None or event.kind != "trial-ended" or not (event.blocks and event.done):
            return False
        return event.done % max(1, event.total // event.blocks) == 0

    @property
    def share(self) -> float:
        """Share of the planned trials that have ended, 0 to 1."""
        return min(1.0, self.event.done / self.event.total) if self.event and self.event.total else 0.0

    def line(self, now: float) -> str:
        """Return one line with block, trial, phase, number of trials done and the time left at `now` (epoch s)."""
        event = self.event
        if self.ended:
            done = f"{event.done} of {event.total} trials" if event else "no trial"
            outcome = "complete" if "run" in self.ended else self.ended["error"].splitlines()[0]
            return f"{done} in {format_duration(self.ended['at'] - self.started)}: {outcome}"
        if event is None:
            return STARTING
        spent_s = max(0.0, now - self.event_time)
        done = f"{event.done} of {event.total} trials done"
        parts = [*event.place, event.phase_text(spent_s), done, event.remaining_text(spent_s)]
        return " · ".join(part for part in parts if part)


@dataclass
class DetachedRun:
    """A run in a process that continues when its starter ends; `process` is set only in the process that started it."""

    folder: Path
    pid: int
    process: subprocess.Popen[str] | None = None

    def state(self) -> RunState | None:
        """Return the state that the process wrote last; None if it has not written one yet."""
        state = read_state(self.folder)
        return state if state and state.pid == self.pid else None

    def is_alive(self) -> bool:
        """Return whether the process still runs."""
        if self.process is not None:
            return self.process.poll() is None
        state = self.state()
        return state is not None and process_start_ticks(self.pid) == str(state.process_start)

    def stop(self) -> None:
        """Interrupt the run like Ctrl-C, and wait until the current trial is recorded as cancelled."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)
        clock.wait_until(lambda: not self.is_alive(), EXIT_TIMEOUT_S, 0.1)

    def log_tail(self) -> str:
        """Return the last lines that the process printed."""
        with contextlib.suppress(OSError):
            return "\n".join((self.folder / LOG_FILE).read_text("utf-8", "replace").splitlines()[-3:])
        return ""


def start_detached_run(layout: Layout, folder: Path, job: WorkerJob) -> DetachedRun:
    """Start the process of a run that outlives this process; its state is stored in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOG_FILE).open("wb") as log:
        process = _start(layout, job, stdout=log, stderr=log)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    return DetachedRun(folder, process.pid, process)


def find_detached_run(folder: Path) -> DetachedRun | None:
    """Return the run whose state is in `folder` if its process is alive, else None."""
    state = read_state(folder)
    run = DetachedRun(folder, state.pid) if state else None
    return run if run and run.is_alive() else None


def read_state(folder: Path) -> RunState | None:
    """Return the state of a run that is stored in a folder; None if there is none."""
    try:
        record = json.loads((folder / STATE_FILE).read_bytes())
        event = record["event"]
        return RunState(**record | {"event": Progress(**event) if event else None})
    except (OSError, ValueError, TypeError, KeyError):
        return None


class StateFile:
    """Receives the messages of a notebook's run and stores the state of the run in a file."""

    def __init__(self, layout: Layout, folder: Path, job: WorkerJob) -> None:
        self.layout, self.folder, self.job = layout, folder, job
        self.state = RunState(job.study_source, os.getpid(), int(process_start_ticks(os.getpid())))
        self.write()

    def __call__(self, kind: str, **fields: Any) -> None:
        """Process one message; after each block, estimate the changes so far (between trials, not during a load)."""
        if kind == "event":
            self.state.update(event := Progress(**fields["event"]))
            if event.kind == "trial-ended" and self.state.completes_block:
                try:
                    run = self.job.run or "latest"
                    self.state.estimates = running_estimates(self.layout, self.job.study_source, run)
                except (LoadbookError, ValueError, KeyError) as error:
                    print(f"no running estimate: {error}", file=sys.stderr, flush=True)
                    self.state.estimates = []
        elif kind == "ran":
            self.state.ended = {"run": fields["run"], "at": clock.now()}
        elif kind == "failed":
            ended = {"error": fields["reason"], "hint": fields["next"], "exit_code": fields["exit_code"]}
            self.state.ended = ended | {"at": clock.now()}
        self.write()

    def write(self) -> None:
        """Write the state file by an atomic rename."""
        write_json(self.folder / STATE_FILE, asdict(self.state))


def running_estimates(layout: Layout, study: str, run: str) -> list[list[Any]]:
    """Ingest the trials of a run so far; return label, change (ratio minus 1) and number of blocks of each treatment.

    The change is the median over blocks of the ratio to the baseline; intervals and verdicts are calculated only when
    the plan is complete.
    """
    from loadbook.execution.studies import load_study
    from loadbook.ingestion.ingest import ingest
    from loadbook.store.tables import load_run

    name = load_study(layout, study).name
    run = layout.resolve_run(name, run)
    ingest(layout.run(name, run))
    data = load_run(layout, name, run)
    values = data.values(data.study.metric)
    values = values[values["valid"]].pivot(index="block", columns="treatment", values="value")
    rows: list[list[Any]] = []
    for treatment in data.plan.treatments:
        base = data.study.repeated_treatment(treatment) or data.study.baseline_of(treatment)
        if treatment == base or not {treatment, base} <= set(values.columns):
            continue
        ratios = (values[treatment] / values[base]).dropna()
        change = float(ratios.median()) - 1 if len(ratios) else math.nan
        if math.isfinite(change):
            rows.append([data.study.label(treatment), change, len(ratios)])
    return rows


def main(root: str) -> int:
    """Execute the job read from stdin; return 130 after an interrupt, else 0, as errors are reported by messages."""
    layout = Layout(Path(root))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    job = WorkerJob(**json.loads(sys.stdin.readline()))
    send: SendMessage = StateFile(layout, Path(job.state_folder), job) if job.state_folder else _follow_batch()
    try:
        _run_job(layout, job, send)
    except KeyboardInterrupt:
        if job.state_folder:
            send("failed", reason="stopped", next="the same call goes on with the next trial", exit_code=INTERRUPTED)
        return INTERRUPTED
    return 0


def _follow_batch() -> SendMessage:
    """Return a function that sends messages to the batch, and start to obey the batch's commands on stdin.

    All other output to stdout is redirected to stderr.
    """
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    main_thread = threading.get_ident()

    def interrupt_on_stdin() -> None:
        while sys.stdin.readline():
            signal.pthread_kill(main_thread, signal.SIGINT)
        os._exit(INTERRUPTED)

    def send(kind: str, **fields: Any) -> None:
        out.write(json.dumps({"kind": kind} | fields) + "\n")
        out.flush()

    threading.Thread(target=interrupt_on_stdin, daemon=True).start()
    return send


def _run_job(layout: Layout, job: WorkerJob, send: SendMessage) -> None:
    """Run the study and make the reports; if a report fails, the others are still made."""
    from loadbook.ingestion.ingest import ingest

    started = clock.monotonic()
    try:
        run = measure(layout, job, send)
        if not job.reports:
            ingest(layout.run(job.study, run))
        send("ran", run=run, took_s=clock.monotonic() - started)
    except Exception as error:
        send("failed", ran_s=clock.monotonic() - started, **_error_fields(error))
        return
    for name, values in job.reports:
        started = clock.monotonic()
        send("report", name=name)
        try:
            result = make_report(layout, job, run, name, values, send)
            send("reported", name=name, took_s=clock.monotonic() - started, **result)
        except Exception as error:
            send("failed", name=name, took_s=clock.monotonic() - started, **_error_fields(error))


def _error_fields(error: Exception) -> dict[str, Any]:
    """Return reason, next step and exit code of an error; print the traceback of an internal error to stderr."""
    if isinstance(error, OSError) and error.errno in DISK_FULL_ERRNOS:
        error = LoadbookError(disk_full_message(error), DISK_FULL_HINT)
    elif not isinstance(error, LoadbookError):
        is_defect = not isinstance(error, OSError)
        if is_defect:
            traceback.print_exception(error)
        error = LoadbookError(f"{type(error).__name__}: {error}", INTERNAL_HINT if is_defect else None)
    return {"reason": error.message, "next": error.hint, "exit_code": error.exit_code}


def measure(layout: Layout, job: WorkerJob, send: SendMessage) -> str:
    """Complete the run of a job (existing, resumed or new) and return its id, which is sent before the first trial.

    The `more` blocks are not added a second time.
    """
    from loadbook.execution.select import RunRequest, resumes_added_blocks
    from loadbook.execution.session import run_study
    from loadbook.store.ledger import is_run_complete, read_current_plan

    def start(**options: Any) -> str:
        hosts, lock_policy = Path(job.hosts) if job.hosts else None, LockPolicy(job.wait_s)
        request = RunRequest(job.study_source, hosts, lock_policy=lock_policy, **options)
        return run_study(layout, request, on_event=lambda event: send("event", event=asdict(event)))

    if job.more:
        run = layout.resolve_run(job.study, job.run or "latest")
        paths = layout.run(job.study, run)
        blocks, complete = read_current_plan(paths).blocks, is_run_complete(paths)
        is_new = complete or not resumes_added_blocks(paths, job.more)
        after = job.blocks_after or (blocks + job.more if is_new else blocks)
        send("adding", run=run, blocks_after=after)
        return run if complete and blocks >= after else start(resume=run, more=job.more)
    if job.new is not None:
        return start(subset=job.subset, blocks=job.blocks, new=job.new, resume=job.run)
    resume = job.run if job.run in layout.runs(job.study) else None
    if resume and is_run_complete(layout.run(job.study, resume)):
        send("event", event={"kind": "note", "message": f"run {resume} is complete already"})
        return resume
    return start(subset=job.subset, blocks=job.blocks, new=resume is None, resume=resume)


def make_report(
    layout: Layout, job: WorkerJob, run: str, name: str, values: dict[str, Any], send: SendMessage
) -> dict[str, Any]:
    """Make a report; return the summary of its first page, its files, and the failures of its notebooks.

    Each file record holds the names of notebook, page (None if the notebook failed) and executed notebook.
    """
    from loadbook.report.build import OutputPaths, build_report_at
    from loadbook.report.kernel import SharedKernel
    from loadbook.report.notebooks import failed_notebook_path

    place = OutputPaths(Path(job.folder), name, home=job.home)

    def on_message(text: str) -> None:
        send("event", name=name, event={"kind": "note", "message": text.removeprefix(f"{job.study}: ")})

    with SharedKernel() as kernel:
        built = build_report_at(layout, job.study, run, values, place, on_message, job.timeout_s, kernel)
    files = []
    for number, notebook in enumerate(built.notebooks):
        page, out = place.page_path(notebook, number == 0), place.executed_path(notebook, number == 0)
        succeeded = page in built.pages
        executed = out if succeeded else failed_notebook_path(out)
        files.append(
            {
                "notebook": notebook,
                "page": page.name if succeeded else None,
                "executed": executed.name if executed.is_file() else None,
            }
        )
    return {"summary": built.summary, "pages": files, "failures": built.failed}


if __name__ == "__main__":
    # end the process even if threads still wait for a host; all results have been recorded before
    code = main(sys.argv[1])
    sys.stderr.flush()
    os._exit(code)
