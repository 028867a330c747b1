"""The run that a cell started: a process that continues without its kernel, and its state for any notebook.

The process is `loadbook run --events`; its lines are appended to `.progress.jsonl` in the study's folder of raw data,
what it prints on stderr to `.progress.log`. The state of the run is what follows from these lines.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loadbook.batch.commands import EXIT_TIMEOUT_S, LAST_KINDS, Message, parse_messages, start_command
from loadbook.core import clock
from loadbook.core.units import format_duration
from loadbook.execution.progress import EVENTS_FORMAT, KINDS, Progress
from loadbook.hosts.jobs import process_start_ticks
from loadbook.store.paths import Layout

EVENTS_FILE, LOG_FILE = ".progress.jsonl", ".progress.log"
MAX_NOTES = 5
STARTING = "starting: hosts, tools and every configuration are checked first"


@dataclass
class RunState:
    """Progress of a run, updated by the messages that its process printed.

    Attributes
    ----------
    process_start : start of the process of the run, clock ticks since boot.
    started, event_time : start of the run and time of the last event, epoch seconds.
    event : the last event about a trial.
    notes : the last messages that are not about a trial.
    not_ok : status -> trials that ended with it, except "ok".
    estimates : of each treatment `label`, `change` so far (ratio minus 1) and number of `blocks`.
    ended : the last message ("ran", "failed" or "stopped"); None while it runs.
    """

    process_start: int = 0
    started: float = field(default_factory=clock.now)
    event: Progress | None = None
    event_time: float = 0.0
    notes: list[str] = field(default_factory=list)
    not_ok: dict[str, int] = field(default_factory=dict)
    estimates: list[dict[str, Any]] = field(default_factory=list)
    ended: Message | None = None

    def update(self, message: Message) -> None:
        """Update the state with one message."""
        kind = message["kind"]
        if kind == "started":
            self.process_start, self.started = message["process_start"], message["at"]
        elif kind == "note":
            self.notes = [*self.notes, message["message"]][-MAX_NOTES:]
        elif kind in KINDS:
            self.event, self.event_time = Progress.from_message(message), message["at"]
            if kind == "trial-ended" and (status := str(self.event.status)) != "ok":
                self.not_ok = self.not_ok | {status: self.not_ok.get(status, 0) + 1}
        elif kind == "estimates":
            self.estimates = message["estimates"]
        elif kind in LAST_KINDS:
            self.ended = message

    @property
    def share(self) -> float:
        """Share of the planned trials that have ended, 0 to 1."""
        return min(1.0, self.event.done / self.event.total) if self.event and self.event.total else 0.0

    def line(self, now: float) -> str:
        """Return one line with block, trial, phase, number of trials done and the time left at `now` (epoch s)."""
        event = self.event
        if self.ended:
            done = f"{event.done} of {event.total} trials" if event else "no trial"
            outcomes = {"ran": "complete", "stopped": "stopped"}
            outcome = outcomes.get(self.ended["kind"]) or self.ended["error"].splitlines()[0]
            return f"{done} in {format_duration(self.ended['at'] - self.started)}: {outcome}"
        if event is None:
            return STARTING
        spent_s = max(0.0, now - self.event_time)
        done = f"{event.done} of {event.total} trials done"
        parts = [*event.place, event.phase_text(spent_s), done, event.remaining_text(spent_s)]
        return " · ".join(part for part in parts if part)


class DetachedRun:
    """A run in another process, which appends its messages (one JSON object a line) to a file in `folder`.

    `process` is set only in the process that started it, else None.
    """

    def __init__(self, folder: Path, pid: int, process: subprocess.Popen[str] | None = None) -> None:
        self.folder, self.pid, self.process = folder, pid, process
        self._state, self._offset = RunState(), 0

    def state(self) -> RunState:
        """Return the state after all complete lines of this run; messages of other processes are skipped."""
        with contextlib.suppress(OSError), (self.folder / EVENTS_FILE).open("rb") as file:
            file.seek(self._offset)
            lines, newline, _ = file.read().rpartition(b"\n")
            self._offset += len(lines + newline)
            for message in parse_messages(lines.decode("utf-8", "replace").splitlines()):
                if message["pid"] == self.pid:
                    self._state.update(message)
        return replace(self._state)

    def is_alive(self) -> bool:
        """Return whether the process still runs."""
        if self.process is not None:
            return self.process.poll() is None
        return process_start_ticks(self.pid) == str(self.state().process_start)

    def stop(self) -> None:
        """Interrupt the run like Ctrl-C, so that the current trial is recorded as cancelled.

        Returns when the process has ended, or after 60 s.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)
        clock.wait_until(lambda: not self.is_alive(), EXIT_TIMEOUT_S, 0.1)

    def log_tail(self) -> str:
        """Return the last three lines that the process printed on stderr; "" if there are none."""
        with contextlib.suppress(OSError):
            return "\n".join((self.folder / LOG_FILE).read_text("utf-8", "replace").splitlines()[-3:])
        return ""


def start_detached_run(layout: Layout, folder: Path, arguments: Sequence[str]) -> DetachedRun:
    """Start `loadbook ARGUMENTS`, a run that outlives this process; its lines are written to files in `folder`.

    The folder is made if needed; files of an earlier run are emptied.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (EVENTS_FILE, LOG_FILE):
        (folder / name).write_bytes(b"")
    with (folder / EVENTS_FILE).open("ab") as out, (folder / LOG_FILE).open("ab") as log:
        process = start_command(layout, arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=log)
    return DetachedRun(folder, process.pid, process)


def find_detached_run(folder: Path) -> DetachedRun | None:
    """Return the run whose messages are in `folder` if its process is alive, else None."""
    with contextlib.suppress(OSError), (folder / EVENTS_FILE).open(encoding="utf-8", errors="replace") as lines:
        for message in parse_messages(lines):
            if message["kind"] == "started" and message["format"] == EVENTS_FORMAT:
                run = DetachedRun(folder, message["pid"])
                if run.is_alive():
                    return run
    return None
