"""A run in a process of its own: for a batch, which ends with the batch, or for a notebook, which outlives its kernel.

`python -m loadbook.batch.process ROOT` reads its job from the first line of stdin, runs the study, then makes the
reports of the job. Where the messages about it go is the only difference: to the batch as lines of JSON on stdout, or
into the file `.progress.json` of the study's folder, which any notebook may read. The word `stop` on stdin interrupts
a batch's process as Ctrl-C does; the end of stdin ends it.
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
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from loadbook.batch.progress import RunState

if TYPE_CHECKING:
    from loadbook.core.errors import LoadbookError
    from loadbook.execution.progress import LockPolicy, OnEvent, Progress
    from loadbook.report.build import BuiltReport, OutputPaths
    from loadbook.store.paths import Layout

MODULE = "loadbook.batch.process"
INTERRUPTED = 130
STOP_WORD = "stop"
STATE_FILE, LOG_FILE = ".progress.json", ".progress.log"
# how long a process that has sent its last message may take to end
EXIT_TIMEOUT_S = 60.0
INTERNAL_HINT = f"a defect of loadbook: the traceback is on stderr, of a run in a notebook in its {LOG_FILE}"

Message = dict[str, Any]


class SendMessage(Protocol):
    """Receiver of a worker's messages."""

    def __call__(self, kind: str, **fields: Any) -> None:
        """Take one message."""


@dataclass(frozen=True)
class WorkerJob:
    """The work of one process: a study as `run_study` takes it, and the reports (name, parameters) made of the run.

    Attributes
    ----------
    run : the run to resume.
    new : start a new run; None: unless `run` is there.
    blocks_after : how many blocks the run has when the `more` blocks are added.
    state_folder : folder of the file that keeps the state; None: messages go to stdout, for the batch.
    folder, home : where pages go, and the text of their link to the batch.
    wait_s, timeout_s : seconds that the run waits for hosts in use, and that a cell of a notebook may take.
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
    """Start the process of a job in a session of its own, which signals for our process group do not reach."""
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
    """The process of a batch's job; it ends with this one, however this one ends."""

    def __init__(self, layout: Layout, job: WorkerJob) -> None:
        self.process = _start(layout, job, stdout=subprocess.PIPE)

    def messages(self) -> Iterator[Message]:
        """Yield its messages until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):  # half a line of one that was killed
                yield json.loads(line)

    def stop(self) -> None:
        """Interrupt it, as Ctrl-C does."""
        _write_line(self.process, STOP_WORD)

    def wait(self) -> int:
        """Wait for its end after its last message; return its exit code, negative for the signal that ended it."""
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
class DetachedRun:
    """A run whose process outlives its starter; `process` is set in the process that started it."""

    folder: Path
    pid: int
    process: subprocess.Popen[str] | None = None

    def state(self) -> RunState | None:
        """Return the state that the process last wrote; None before it wrote one."""
        state = read_state(self.folder)
        return state if state and state.pid == self.pid else None

    def is_alive(self) -> bool:
        """Return whether the process still runs."""
        if self.process is not None:
            return self.process.poll() is None
        state, start = self.state(), process_start_time(self.pid)
        return state is not None and start is not None and start == state.process_start

    def stop(self, wait_s: float = 60.0) -> None:
        """Interrupt it as Ctrl-C does, and wait until the trial under way is recorded as cancelled."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)
        deadline = time.monotonic() + wait_s
        while self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.1)

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
    """Return the run that is under way in a folder, None if there is none."""
    state = read_state(folder)
    run = DetachedRun(folder, state.pid) if state else None
    return run if run and run.is_alive() else None


def read_state(folder: Path) -> RunState | None:
    """Return the state stored in a folder; None if there is none."""
    try:
        return RunState.from_record(json.loads((folder / STATE_FILE).read_bytes()))
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def process_start_time(pid: int) -> int | None:
    """Return the start time of a process (clock ticks since boot), which identifies it together with its id."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return None if state == "Z" else int(fields[18])
    except (OSError, ValueError, IndexError):
        return None


class StateFile:
    """Receiver of a worker's messages that keeps the state of its run in a file, for notebooks."""

    def __init__(self, layout: Layout, folder: Path, job: WorkerJob) -> None:
        self.layout, self.folder, self.job = layout, folder, job
        self.state = RunState(job.study_source, os.getpid(), process_start_time(os.getpid()))
        self.write()

    def __call__(self, kind: str, **fields: Any) -> None:
        """Take one message; the running estimate is made between trials, after each block."""
        from loadbook.execution.progress import Progress

        if kind == "event":
            self.state.update(event := Progress(**fields["event"]))
            if event.kind == "trial-ended" and self.state.completes_block:
                self.state.estimates = _current_estimates(self.layout, self.job)
        elif kind == "ran":
            self.state.ended = {"run": fields["run"], "at": time.time()}
        elif kind == "failed":
            ended = {"error": fields["reason"], "hint": fields["next"], "exit_code": fields["exit_code"]}
            self.state.ended = ended | {"at": time.time()}
        self.write()

    def write(self) -> None:
        """Write the file, whole or not at all."""
        from loadbook.store.trial_record import write_json

        write_json(self.folder / STATE_FILE, self.state.to_record())


def _current_estimates(layout: Layout, job: WorkerJob) -> list[list[Any]]:
    from loadbook.core.errors import LoadbookError

    try:
        return running_estimates(layout, job.study_source, job.run or "latest")
    except (LoadbookError, ValueError, KeyError) as error:
        print(f"no running estimate: {error}", file=sys.stderr, flush=True)
        return []


def running_estimates(layout: Layout, study: str, run: str) -> list[list[Any]]:
    """Make the tables of a run so far; return label, change (ratio minus 1) and blocks of each treatment.

    The change is the median over blocks of the ratio to the baseline: it has no interval and no verdict, which come
    when the plan is done.
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
    for treatment in data.plan["treatments"]:
        base = data.study.repeated_treatment(treatment) or data.study.baseline_of(treatment)
        if treatment == base or not {treatment, base} <= set(values.columns):
            continue
        ratios = (values[treatment] / values[base]).dropna()
        change = float(ratios.median()) - 1 if len(ratios) else math.nan
        if math.isfinite(change):
            rows.append([data.study.label(treatment), change, len(ratios)])
    return rows


def main(root: str) -> int:
    """Do the job of stdin; the exit code is 130 after an interrupt, else 0: the outcome is in the messages."""
    from loadbook.store.paths import Layout

    layout = Layout(Path(root))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    job = WorkerJob(**json.loads(sys.stdin.readline()))
    send: SendMessage = StateFile(layout, Path(job.state_folder), job) if job.state_folder else _follow_batch()
    try:
        _run_job(layout, job, send)
    except KeyboardInterrupt:
        if job.state_folder:
            hint = "the same call goes on with the next trial"
            send("failed", reason="stopped", next=hint, exit_code=INTERRUPTED)
        return INTERRUPTED
    return 0


def _follow_batch() -> SendMessage:
    """Return the sender of messages to the batch; from now on the batch can interrupt this process, or end it.

    Everything else that prints to stdout goes to stderr.
    """
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_interrupt_on_stdin, args=(threading.get_ident(),), daemon=True).start()
    return _line_sender(out)


def _interrupt_on_stdin(main_thread: int) -> None:
    while sys.stdin.readline():
        signal.pthread_kill(main_thread, signal.SIGINT)
    os._exit(INTERRUPTED)


def _line_sender(out: TextIO) -> SendMessage:
    def send(kind: str, **fields: Any) -> None:
        out.write(json.dumps({"kind": kind} | fields) + "\n")
        out.flush()

    return send


def _run_job(layout: Layout, job: WorkerJob, send: SendMessage) -> None:
    from loadbook.core.errors import LoadbookError
    from loadbook.ingestion.ingest import ingest

    started = time.monotonic()
    try:
        with _as_loadbook_errors():
            run = measure(layout, job, send)
            if not job.reports:
                ingest(layout.run(job.study, run))
        send("ran", run=run, took_s=time.monotonic() - started)
    except LoadbookError as error:
        send("failed", ran_s=time.monotonic() - started, **_error_fields(error))
        return
    for name, values in job.reports:
        started = time.monotonic()
        send("report", name=name)
        try:
            with _as_loadbook_errors():
                result = make_report(layout, job, run, name, values, send)
            send("reported", name=name, took_s=time.monotonic() - started, **result)
        except LoadbookError as error:
            send("failed", name=name, took_s=time.monotonic() - started, **_error_fields(error))


@contextlib.contextmanager
def _as_loadbook_errors() -> Iterator[None]:
    """Turn any other error into a LoadbookError, so that the other reports go on; its traceback goes to stderr."""
    from loadbook.core.errors import LoadbookError
    from loadbook.store.atomic import DISK_FULL_ERRNOS, DISK_FULL_HINT, disk_full_message

    try:
        yield
    except LoadbookError:
        raise
    except OSError as error:
        if error.errno in DISK_FULL_ERRNOS:
            raise LoadbookError(disk_full_message(error), DISK_FULL_HINT) from error
        raise LoadbookError(f"{type(error).__name__}: {error}") from error
    except Exception as error:
        import traceback

        traceback.print_exc()
        raise LoadbookError(f"{type(error).__name__}: {error}", INTERNAL_HINT) from error


def _error_fields(error: LoadbookError) -> dict[str, Any]:
    return {"reason": error.message, "next": error.hint, "exit_code": error.exit_code}


def measure(layout: Layout, job: WorkerJob, send: SendMessage) -> str:
    """Return the run of a job: complete already, resumed, or new; an event names it before the first trial."""
    from loadbook.execution.api import run_study
    from loadbook.execution.progress import LockPolicy
    from loadbook.store.ledger import is_run_complete

    hosts, lock_policy = Path(job.hosts) if job.hosts else None, LockPolicy(job.wait_s)

    def forward_event(event: Progress) -> None:
        send("event", event=asdict(event))

    if job.more:
        return _extend_run(layout, job, hosts, lock_policy, forward_event, send)
    resume, new = job.run, job.new
    if new is None:
        resume = job.run if job.run in layout.runs(job.study) else None
        new = resume is None
        if resume and is_run_complete(layout.run(job.study, resume)):
            send("event", event={"kind": "note", "message": f"run {resume} is complete already"})
            return resume
    return run_study(
        layout, job.study_source, hosts, job.subset, job.blocks, new, resume,
        on_event=forward_event, lock_policy=lock_policy,
    )  # fmt: skip


def _extend_run(
    layout: Layout, job: WorkerJob, hosts: Path | None, lock_policy: LockPolicy, on_event: OnEvent, send: SendMessage
) -> str:
    """Return the run with its further blocks; blocks that it has already are not added twice."""
    from loadbook.execution.api import run_study
    from loadbook.execution.select import resumes_added_blocks
    from loadbook.store.ledger import is_run_complete, read_current_plan

    run = layout.resolve_run(job.study, job.run or "latest")
    paths, more = layout.run(job.study, run), job.more or 0
    blocks, complete = int(read_current_plan(paths)["blocks"]), is_run_complete(paths)
    after = job.blocks_after or (blocks + more if complete or not resumes_added_blocks(paths, more) else blocks)
    send("adding", run=run, blocks_after=after)
    if complete and blocks >= after:
        return run
    return run_study(layout, job.study_source, hosts, resume=run, on_event=on_event, more=more, lock_policy=lock_policy)


def make_report(
    layout: Layout, job: WorkerJob, run: str, name: str, values: dict[str, Any], send: SendMessage
) -> dict[str, Any]:
    """Return the summary of a report's first page, its files, and the failures of its notebooks."""
    from loadbook.report.build import OutputPaths, build_report_at

    place = OutputPaths(Path(job.folder), name, home=job.home)

    def on_message(text: str) -> None:
        send("event", name=name, event={"kind": "note", "message": text.removeprefix(f"{job.study}: ")})

    built = build_report_at(layout, job.study, run, values, place, on_message, job.timeout_s)
    return {"summary": built.summary, "pages": _page_files(place, built), "failures": built.failed}


def _page_files(place: OutputPaths, built: BuiltReport) -> list[dict[str, str | None]]:
    """Return notebook, page and executed notebook of each, by their names; of failed ones without a page."""
    from loadbook.report.notebooks import failed_notebook_path

    files: list[dict[str, str | None]] = []
    for number, name in enumerate(built.notebooks):
        page, out = place.page_path(name, number == 0), place.executed_path(name, number == 0)
        succeeded = page in built.pages
        notebook = out if succeeded else failed_notebook_path(out)
        executed = notebook.name if notebook.is_file() else None
        files.append({"notebook": name, "page": page.name if succeeded else None, "executed": executed})
    return files


if __name__ == "__main__":
    # threads that still wait for a host must not keep the process: everything is recorded by then
    code = main(sys.argv[1])
    sys.stderr.flush()
    os._exit(code)
