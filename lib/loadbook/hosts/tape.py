"""What a host answered during a run, in order, as JSON lines: kept by `record_host`, said again by `replay`.

Kept are short control commands, scripts, HTTP requests, clock probes, tokens and process ids of jobs. What jobs print
is kept as files of the trial anyway. Questions are kept without what is another one in every run (the work folder,
the names of run and attempt), and a script by its first line.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from loadbook.core.errors import DataError
from loadbook.design.plan import PlannedTrial
from loadbook.hosts.host import HttpResponse, ClockOffset, CommandResult, Host, Job

# a larger body is not kept: a replay then says so when it is asked for it
MAX_RECORDED_BODY_BYTES = 64_000

CallKey = tuple[str, ...]


def transcript_name(alias: str) -> str:
    """Return the name of the file, in a trial's or a run's folder, that holds what a host answered."""
    return f"answers-{alias}"


def call_key(call: str, args: Sequence[str], workdir: str, run: str) -> CallKey:
    """Return what was asked, the same in a recorded run and in its replay."""
    return (call, *(_first_nonblank_line(_without_run_names(arg, workdir, run)) for arg in args))


def _without_run_names(word: str, workdir: str, run: str) -> str:
    replaced = re.sub(rf"{re.escape(run)}-t\d+-a\d+", "{trial}", word.replace(workdir, "{workdir}"))
    return replaced.replace(run, "{run}")


def _first_nonblank_line(word: str) -> str:
    return next((line.strip() for line in word.splitlines() if line.strip()), "")


class RecordingHost(Host, Protocol):
    """A host that keeps what it answers."""

    def take_transcript(self) -> bytes:
        """Return what was kept since the last call, or since the last `set_trial`, as JSON lines."""
        ...


def record_host(host: Host, run: str) -> RecordingHost:
    """Return `host` with its answers kept; `run` is the run's id."""
    return cast("RecordingHost", _Recorder(host, run))


class _Recorder:
    """Passes everything on to the host, and keeps the answers; an error is no answer."""

    def __init__(self, host: Host, run: str) -> None:
        self._host, self._run = host, run
        self._lines: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def take_transcript(self) -> bytes:
        lines, self._lines = self._lines, []
        return "".join(lines).encode()

    def set_trial(self, planned: PlannedTrial | None) -> None:
        self._lines = []
        self._host.set_trial(planned)

    def _record(self, call: str, args: Sequence[str], answer: Any) -> None:
        key = call_key(call, args, self._host.workdir, self._run)
        self._lines.append(json.dumps({"asked": key, "answer": answer}) + "\n")

    def run(self, argv: Sequence[str], **options: Any) -> CommandResult:
        done = self._host.run(argv, **options)
        self._record("run", argv, _encode_result(done))
        return done

    def script(self, text: str, args: Sequence[str] = (), **options: Any) -> CommandResult:
        done = self._host.script(text, args, **options)
        self._record("script", [text, *args], _encode_result(done))
        return done

    def http_get(self, address: str, port: int, path: str, **options: Any) -> HttpResponse:
        answer = self._host.http_get(address, port, path, **options)
        body = _decode_bytes(answer.body) if len(answer.body) <= MAX_RECORDED_BODY_BYTES else None
        self._record("http_get", [f"{address}:{port}{path}"], [answer.status, answer.headers, body])
        return answer

    def clock(self, probes: int = 10) -> ClockOffset:
        clock = self._host.clock(probes)
        self._record("clock", [], list(clock))
        return clock

    def token(self, name: str) -> str:
        token = self._host.token(name)
        self._record("token", [name], token)
        return token

    def start(self, job: Job) -> int:
        pid = self._host.start(job)
        self._record("start", [job.name, *job.steps[-1]], pid)
        return pid


def _encode_result(done: CommandResult) -> list[Any]:
    return [done.rc, _decode_bytes(done.stdout), _decode_bytes(done.stderr)]


def _decode_bytes(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class Transcript:
    """The answers of one transcript; the last one to a question is given again when it is asked more often."""

    def __init__(self, path: Path) -> None:
        self._answers: dict[CallKey, deque[Any]] = {}
        for key, answer in _read_entries(path):
            self._answers.setdefault(key, deque()).append(answer)

    def next_answer(self, key: CallKey) -> Any:
        """Return the next answer to a question; KeyError when it was not asked."""
        answers = self._answers[key]
        return answers.popleft() if len(answers) > 1 else answers[0]

    def command_result(self, key: CallKey) -> CommandResult:
        """Return the answer of a command or script."""
        rc, stdout, stderr = self.next_answer(key)
        return CommandResult(rc, _encode_text(stdout), _encode_text(stderr))

    def http_response(self, key: CallKey) -> HttpResponse:
        """Return the answer to an HTTP request; KeyError, too, when its body was too large to be kept."""
        status, headers, body = self.next_answer(key)
        if body is None:
            raise KeyError("body")
        return HttpResponse(status, headers, _encode_text(body))


def _read_entries(path: Path) -> Iterator[tuple[CallKey, Any]]:
    if not path.is_file():
        return
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
        try:
            entry = json.loads(line)
            yield tuple(entry["asked"]), entry["answer"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}:{number}: not an answer that was kept", "record the run again") from error
