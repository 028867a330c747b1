"""One part of a batch in a process of its own: a study run on its hosts, then its reports.

`python -m loadbook.batch.process ROOT` reads its job as the first line of stdin and tells on stdout, a line of
JSON each, how far it is. The word `stop` on stdin is Ctrl-C; the end of stdin is the end of the batch, and of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from loadbook.core.errors import LoadbookError
    from loadbook.execution.progress import LockPolicy, OnEvent, Progress
    from loadbook.report.build import BuiltReport, OutputPaths
    from loadbook.store.paths import Layout

INTERRUPTED = 130
STOP_WORD = "stop"
SendMessage = Callable[..., None]


@dataclass(frozen=True)
class WorkerJob:
    """What a worker does: a study as `run_study` takes it, and the reports (name, parameters) made of the run.

    `run` is the run that was begun for it before; `blocks_after` how many blocks it has when those added are done.
    `folder` is where pages go, `home` what they call it; `wait_s` and `timeout_s` are seconds.
    """

    study_source: str
    study: str
    hosts: str | None
    subset: str | None
    blocks: int | None
    more: int | None
    run: str | None
    blocks_after: int | None
    wait_s: float
    timeout_s: float
    folder: str
    home: str
    reports: list[tuple[str, dict[str, Any]]]


def main(root: str) -> int:
    """Do the job that stdin says; the exit code is 0 whatever came of it, as that is told."""
    out, job = _open_channels()
    send = _message_sender(out)
    try:
        _run_job(Path(root), job, send)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _open_channels() -> tuple[TextIO, WorkerJob]:
    """Return where to tell, and the job; whatever else prints goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    job = WorkerJob(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_interrupt_on_stdin, args=(threading.get_ident(),), daemon=True).start()
    return out, job


def _interrupt_on_stdin(main_thread: int) -> None:
    """Interrupt the work at each word, and end with whoever gives the words."""
    while sys.stdin.readline():
        signal.pthread_kill(main_thread, signal.SIGINT)
    os._exit(INTERRUPTED)


def _message_sender(out: TextIO) -> SendMessage:
    def send(kind: str, **fields: Any) -> None:
        out.write(json.dumps({"kind": kind} | fields) + "\n")
        out.flush()

    return send


def _run_job(root: Path, job: WorkerJob, send: SendMessage) -> None:
    from loadbook.core.errors import LoadbookError
    from loadbook.store.paths import Layout

    layout, started = Layout(root), time.monotonic()
    try:
        with _as_loadbook_errors():
            run = measure(layout, job, send)
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
    """Turn what is no error of ours into one: the other reports go on, and the traceback is on stderr."""
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
        raise LoadbookError(f"{type(error).__name__}: {error}", "a mistake of loadbook: see its stderr") from error


def _error_fields(error: LoadbookError) -> dict[str, Any]:
    return {"reason": error.message, "next": error.hint, "exit_code": error.exit_code}


def measure(layout: Layout, job: WorkerJob, send: SendMessage) -> str:
    """Return the run of this job: complete already, gone on with, or begun; it is told before the first trial."""
    from loadbook.execution.api import run_study
    from loadbook.execution.progress import LockPolicy
    from loadbook.store.ledger import is_run_complete

    hosts, turn = Path(job.hosts) if job.hosts else None, LockPolicy(job.wait_s)

    def forward_event(event: Progress) -> None:
        send("event", event=asdict(event))

    if job.more:
        return _extend_run(layout, job, hosts, turn, forward_event, send)
    existing = job.run if job.run in layout.runs(job.study) else None
    if existing and is_run_complete(layout.run(job.study, existing)):
        send("event", event={"kind": "note", "message": f"run {existing} is complete already"})
        return existing
    return run_study(
        layout,
        job.study_source,
        hosts,
        job.subset,
        job.blocks,
        not existing,
        existing,
        on_event=forward_event,
        lock_policy=turn,
    )


def _extend_run(
    layout: Layout, job: WorkerJob, hosts: Path | None, turn: LockPolicy, on_event: OnEvent, send: SendMessage
) -> str:
    """Return the run that has got its further blocks; those that it has got already are not added twice."""
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
    return run_study(layout, job.study_source, hosts, resume=run, on_event=on_event, more=more, lock_policy=turn)


def make_report(
    layout: Layout, job: WorkerJob, run: str, name: str, values: dict[str, Any], send: SendMessage
) -> dict[str, Any]:
    """Return what came of one report: the summary of its first page, its files, and what failed."""
    from loadbook.report.build import OutputPaths, build_report_at

    place = OutputPaths(Path(job.folder), name, home=job.home)

    def on_message(text: str) -> None:
        send("event", name=name, event={"kind": "note", "message": text.removeprefix(f"{job.study}: ")})

    built = build_report_at(layout, job.study, run, values, place, on_message, job.timeout_s)
    return {"summary": built.summary, "pages": _page_files(place, built), "failures": built.failed}


def _page_files(place: OutputPaths, built: BuiltReport) -> list[dict[str, str | None]]:
    """Return notebook, page and executed notebook of each, by their names; what there is of those that failed."""
    from loadbook.report.notebooks import failed_notebook_path

    found: list[dict[str, str | None]] = []
    for number, name in enumerate(built.notebooks):
        page, out = place.page_path(name, number == 0), place.executed_path(name, number == 0)
        succeeded = page in built.pages
        notebook = out if succeeded else failed_notebook_path(out)
        executed = notebook.name if notebook.is_file() else None
        found.append({"notebook": name, "page": page.name if succeeded else None, "executed": executed})
    return found


if __name__ == "__main__":
    # threads that still wait for a host must not keep the process: all is recorded by then
    code = main(sys.argv[1])
    sys.stderr.flush()
    os._exit(code)
