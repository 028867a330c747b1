"""A run in a process of its own, so that neither a closed tab nor a kernel that restarts ends it.

`python -m loadbook.notebook.process` does the run and keeps in one small file how far it is; whoever wants to watch
reads that. What is measured is never disturbed by it: the file is written, and the running estimate made, between
trials.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadbook.core.errors import LoadbookError
from loadbook.execution.progress import Progress
from loadbook.store.paths import Layout
from loadbook.store.trial_record import write_json

NAME, LOG = ".progress.json", ".progress.log"
MOST_NOTES = 5
START_S = 30.0


@dataclass(frozen=True)
class Wish:
    """What is to be run; empty texts are the study's or the lab's own."""

    study: str
    hosts: str = ""
    subset: str = ""
    resume: str = ""
    new: bool = False


@dataclass
class Runner:
    """The process that runs, or ran, a study in a folder of raw data; `process` is there if it is a child of ours."""

    folder: Path
    pid: int
    process: subprocess.Popen[bytes] | None = None

    def state(self) -> dict[str, Any]:
        """Return what it last kept; nothing before it kept anything."""
        found = kept(self.folder)
        return found if found.get("pid") == self.pid else {}

    def alive(self) -> bool:
        """Tell whether it still runs."""
        if self.process is not None:
            return self.process.poll() is None
        return born(self.pid) is not None and born(self.pid) == self.state().get("born")

    def stop(self, wait_s: float = 60.0) -> None:
        """Interrupt it as Ctrl-C does, and wait until the trial under way is recorded as cancelled."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)
        deadline = time.monotonic() + wait_s
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.1)

    def last_words(self) -> str:
        """Return the end of what it printed."""
        with contextlib.suppress(OSError):
            return "\n".join((self.folder / LOG).read_text("utf-8", "replace").splitlines()[-3:])
        return ""


def attached(folder: Path) -> Runner | None:
    """Return the runner that is at work in a folder, None if there is none."""
    pid = kept(folder).get("pid")
    found = Runner(folder, pid) if isinstance(pid, int) else None
    return found if found and found.alive() else None


def start(layout: Layout, folder: Path, wish: Wish) -> Runner:
    """Begin a run in a session of its own: signals for the kernel's group do not reach it."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", __spec__.name, str(layout.root), str(folder), json.dumps(asdict(wish))]
    with (folder / LOG).open("wb") as log:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=layout.root
        )
    return Runner(folder, process.pid, process)


def kept(folder: Path) -> dict[str, Any]:
    """Return the file in a folder; nothing where it is not there or not one of ours."""
    try:
        found = json.loads((folder / NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def born(pid: int) -> int | None:
    """Return when a process began (clock ticks since boot), so that another of the same id is not taken for it."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return None if state == "Z" else int(fields[18])
    except (OSError, ValueError, IndexError):
        return None


class Keeper:
    """Receives a run's events and keeps what a watcher wants to know (see `live.Watched`)."""

    def __init__(self, layout: Layout, folder: Path, wish: Wish) -> None:
        self.layout, self.folder, self.wish = layout, folder, wish
        self.state: dict[str, Any] = {"pid": os.getpid(), "born": born(os.getpid()), "began": time.time(), "notes": [],
                                      "bad": {}, "study": wish.study}  # fmt: skip
        self.keep()

    def __call__(self, event: Progress) -> None:
        """Keep one event."""
        if event.kind == "note":
            self.state["notes"] = [*self.state["notes"], event.message][-MOST_NOTES:]
        else:
            self.state |= {"event": asdict(event), "at": time.time()}
        if event.kind == "trial-ended":
            self._count(event)
        self.keep()

    def _count(self, event: Progress) -> None:
        if event.status != "ok":
            status = str(event.status)
            self.state["bad"][status] = self.state["bad"].get(status, 0) + 1
        if event.blocks and event.done and event.done % max(1, event.total // event.blocks) == 0:
            self.state["so_far"] = so_far(self.layout, self.wish)

    def end(self, **how: Any) -> None:
        """Keep how it ended: run=id, or error, kind and hint."""
        self.state["ended"] = how | {"at": time.time()}
        self.keep()

    def keep(self) -> None:
        """Write the file, whole or not at all."""
        write_json(self.folder / NAME, self.state)


def so_far(layout: Layout, wish: Wish) -> list[list[Any]]:
    """Return label, change (ratio minus 1) and blocks of each treatment as it stands now; nothing if it is not known.

    The median over blocks of the ratio to the baseline: no interval and no verdict, as nobody may look yet.
    """
    from loadbook.notebook.progress import estimates

    try:
        return estimates(layout, wish.study, wish.resume or "latest")
    except (LoadbookError, ValueError, KeyError) as error:
        print(f"no running estimate: {error}", file=sys.stderr, flush=True)
        return []


def main(root: str, folder: str, wished: str) -> int:
    """Do the run; 0 when it is complete."""
    from loadbook.execution.api import run_study
    from loadbook.ingestion.ingest import ingest

    layout, wish = Layout(Path(root)), Wish(**json.loads(wished))
    keeper = Keeper(layout, Path(folder), wish)
    hosts = layout.root / wish.hosts if wish.hosts else None
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        run = run_study(layout, wish.study, hosts, wish.subset or None, None, wish.new, wish.resume or None, keeper)
        ingest(layout.run(Path(folder).name, run))
        keeper.end(run=run)
    except KeyboardInterrupt:
        keeper.end(error="stopped", kind="stopped", hint="the same call goes on with the next trial")
        return 130
    except LoadbookError as error:
        keeper.end(error=error.message, kind=type(error).__name__, hint=error.hint)
        return error.exit_code
    except BaseException as error:
        keeper.end(error=f"{type(error).__name__}: {error}", kind="internal", hint=f"see {Path(folder) / LOG}")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
