"""One part of a batch in a process of its own: a study run on its hosts, then its reports.

`python -m loadbook.report.batch.worker ROOT` reads its job as the first line of stdin and tells on stdout, a line of
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
    from loadbook.records.layout import Layout
    from loadbook.report.build import Built, Place
    from loadbook.trials.progress import OnEvent, Progress
    from loadbook.trials.turn import Turn

INTERRUPTED = 130
STOP = "stop"
Tell = Callable[..., None]


@dataclass(frozen=True)
class Job:
    """What a worker does: a study as `run_study` takes it, and the reports (name, parameters) made of the run.

    `run` is the run that was begun for it before; `blocks_after` how many blocks it has when those added are done.
    `folder` is where pages go, `home` what they call it; `wait_s` and `timeout_s` are seconds.
    """

    given: str
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
    out, job = _channels()
    tell = _teller(out)
    try:
        _do(Path(root), job, tell)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _channels() -> tuple[TextIO, Job]:
    """Return where to tell, and the job; whatever else prints goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    job = Job(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_listen, args=(threading.get_ident(),), daemon=True).start()
    return out, job


def _listen(main_thread: int) -> None:
    """Interrupt the work at each word, and end with whoever gives the words."""
    while sys.stdin.readline():
        signal.pthread_kill(main_thread, signal.SIGINT)
    os._exit(INTERRUPTED)


def _teller(out: TextIO) -> Tell:
    def tell(kind: str, **said: Any) -> None:
        out.write(json.dumps({"kind": kind} | said) + "\n")
        out.flush()

    return tell


def _do(root: Path, job: Job, tell: Tell) -> None:
    from loadbook.core.errors import LoadbookError
    from loadbook.records.layout import Layout

    layout, begun = Layout(root), time.monotonic()
    try:
        with _told():
            run = measured(layout, job, tell)
        tell("ran", run=run, took_s=time.monotonic() - begun)
    except LoadbookError as error:
        tell("failed", ran_s=time.monotonic() - begun, **_why(error))
        return
    for name, values in job.reports:
        begun = time.monotonic()
        tell("report", name=name)
        try:
            with _told():
                made = reported(layout, job, run, name, values, tell)
            tell("reported", name=name, took_s=time.monotonic() - begun, **made)
        except LoadbookError as error:
            tell("failed", name=name, took_s=time.monotonic() - begun, **_why(error))


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn what is no error of ours into one: the other reports go on, and the traceback is on stderr."""
    from loadbook.core.errors import LoadbookError
    from loadbook.records.atomic import FULL, FULL_HINT, said_of

    try:
        yield
    except LoadbookError:
        raise
    except OSError as error:
        if error.errno in FULL:
            raise LoadbookError(said_of(error), FULL_HINT) from error
        raise LoadbookError(f"{type(error).__name__}: {error}") from error
    except Exception as error:
        import traceback

        traceback.print_exc()
        raise LoadbookError(f"{type(error).__name__}: {error}", "a mistake of loadbook: see its stderr") from error


def _why(error: LoadbookError) -> dict[str, Any]:
    return {"reason": error.message, "next": error.hint, "exit_code": error.exit_code}


def measured(layout: Layout, job: Job, tell: Tell) -> str:
    """Return the run of this job: complete already, gone on with, or begun; it is told before the first trial."""
    from loadbook.records.planned import is_complete
    from loadbook.trials.api import run_study
    from loadbook.trials.turn import Turn

    hosts, turn = Path(job.hosts) if job.hosts else None, Turn(job.wait_s)

    def heard(event: Progress) -> None:
        tell("event", event=asdict(event))

    if job.more:
        return _lengthened(layout, job, hosts, turn, heard, tell)
    there = job.run if job.run in layout.runs(job.study) else None
    if there and is_complete(layout.run(job.study, there)):
        tell("event", event={"kind": "note", "message": f"run {there} is complete already"})
        return there
    return run_study(layout, job.given, hosts, job.subset, job.blocks, not there, there, on_event=heard, turn=turn)


def _lengthened(layout: Layout, job: Job, hosts: Path | None, turn: Turn, heard: OnEvent, tell: Tell) -> str:
    """Return the run that has got its further blocks; those that it has got already are not added twice."""
    from loadbook.records.planned import is_complete, plan_of
    from loadbook.trials.adding import is_what_was_added
    from loadbook.trials.api import run_study

    run = layout.resolve_run(job.study, job.run or "latest")
    paths, more = layout.run(job.study, run), job.more or 0
    blocks, complete = int(plan_of(paths)["blocks"]), is_complete(paths)
    after = job.blocks_after or (blocks + more if complete or not is_what_was_added(paths, more) else blocks)
    tell("adding", run=run, blocks_after=after)
    if complete and blocks >= after:
        return run
    return run_study(layout, job.given, hosts, resume=run, on_event=heard, more=more, turn=turn)


def reported(layout: Layout, job: Job, run: str, name: str, values: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Return what came of one report: the summary of its first page, its files, and what failed."""
    from loadbook.report.build import Place, build_at

    place = Place(Path(job.folder), name, home=job.home)

    def say(text: str) -> None:
        tell("event", name=name, event={"kind": "note", "message": text.removeprefix(f"{job.study}: ")})

    built = build_at(layout, job.study, run, values, place, say, job.timeout_s)
    return {"summary": built.summary, "pages": _files(place, built), "failures": built.failed}


def _files(place: Place, built: Built) -> list[dict[str, str | None]]:
    """Return notebook, page and executed notebook of each, by their names; what there is of those that failed."""
    from loadbook.report.notebooks import failed_path

    found: list[dict[str, str | None]] = []
    for number, name in enumerate(built.notebooks):
        page, out = place.page(name, number == 0), place.executed(name, number == 0)
        good = page in built.pages
        kept = out if good else failed_path(out)
        executed = kept.name if kept.is_file() else None
        found.append({"notebook": name, "page": page.name if good else None, "executed": executed})
    return found


if __name__ == "__main__":
    # threads that still wait for a host must not keep the process: all is recorded by then
    code = main(sys.argv[1])
    sys.stderr.flush()
    os._exit(code)
