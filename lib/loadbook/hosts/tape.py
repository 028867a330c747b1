"""What a host answered during a run, in order, as JSON lines: kept by `taped`, said again by `replay`.

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
from loadbook.hosts.host import Answer, Clock, Completed, Host, Job

# a larger body is not kept: a replay then says so when it is asked for it
BODY_BYTES = 64_000

Question = tuple[str, ...]


def tape_name(alias: str) -> str:
    """Return the name of the file, in a trial's or a run's folder, that holds what a host answered."""
    return f"answers-{alias}"


def question(call: str, words: Sequence[str], workdir: str, run: str) -> Question:
    """Return what was asked, the same in a recorded run and in its replay."""
    return (call, *(_first_line(_neutral(word, workdir, run)) for word in words))


def _neutral(word: str, workdir: str, run: str) -> str:
    named = re.sub(rf"{re.escape(run)}-t\d+-a\d+", "{trial}", word.replace(workdir, "{workdir}"))
    return named.replace(run, "{run}")


def _first_line(word: str) -> str:
    return next((line.strip() for line in word.splitlines() if line.strip()), "")


class TapedHost(Host, Protocol):
    """A host that keeps what it answers."""

    def take(self) -> bytes:
        """Return what was kept since the last call, or since the last change of scene, as JSON lines."""
        ...


def taped(host: Host, run: str) -> TapedHost:
    """Return `host` with its answers kept; `run` is the run's id."""
    return cast("TapedHost", _Recorder(host, run))


class _Recorder:
    """Passes everything on to the host, and keeps the answers; an error is no answer."""

    def __init__(self, host: Host, run: str) -> None:
        self._host, self._run = host, run
        self._lines: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def take(self) -> bytes:
        lines, self._lines = self._lines, []
        return "".join(lines).encode()

    def scene(self, planned: PlannedTrial | None) -> None:
        self._lines = []
        self._host.scene(planned)

    def _keep(self, call: str, words: Sequence[str], answer: Any) -> None:
        asked = question(call, words, self._host.workdir, self._run)
        self._lines.append(json.dumps({"asked": asked, "answer": answer}) + "\n")

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        done = self._host.run(argv, **options)
        self._keep("run", argv, _of_completed(done))
        return done

    def script(self, text: str, args: Sequence[str] = (), **options: Any) -> Completed:
        done = self._host.script(text, args, **options)
        self._keep("script", [text, *args], _of_completed(done))
        return done

    def http_get(self, address: str, port: int, path: str, **options: Any) -> Answer:
        answer = self._host.http_get(address, port, path, **options)
        body = _text(answer.body) if len(answer.body) <= BODY_BYTES else None
        self._keep("http_get", [f"{address}:{port}{path}"], [answer.status, answer.headers, body])
        return answer

    def clock(self, probes: int = 10) -> Clock:
        clock = self._host.clock(probes)
        self._keep("clock", [], list(clock))
        return clock

    def token(self, name: str) -> str:
        token = self._host.token(name)
        self._keep("token", [name], token)
        return token

    def start(self, job: Job) -> int:
        pid = self._host.start(job)
        self._keep("start", [job.name, *job.steps[-1]], pid)
        return pid


def _of_completed(done: Completed) -> list[Any]:
    return [done.rc, _text(done.stdout), _text(done.stderr)]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class Tape:
    """The answers of one tape; the last one to a question is given again when it is asked more often."""

    def __init__(self, path: Path) -> None:
        self._answers: dict[Question, deque[Any]] = {}
        for asked, answer in _entries(path):
            self._answers.setdefault(asked, deque()).append(answer)

    def answer(self, asked: Question) -> Any:
        """Return the next answer to a question; KeyError when it was not asked."""
        answers = self._answers[asked]
        return answers.popleft() if len(answers) > 1 else answers[0]

    def completed(self, asked: Question) -> Completed:
        """Return the answer of a command or script."""
        rc, stdout, stderr = self.answer(asked)
        return Completed(rc, _bytes(stdout), _bytes(stderr))

    def page(self, asked: Question) -> Answer:
        """Return the answer to an HTTP request; KeyError, too, when its body was too large to be kept."""
        status, headers, body = self.answer(asked)
        if body is None:
            raise KeyError("body")
        return Answer(status, headers, _bytes(body))


def _entries(path: Path) -> Iterator[tuple[Question, Any]]:
    if not path.is_file():
        return
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
        try:
            entry = json.loads(line)
            yield tuple(entry["asked"]), entry["answer"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}:{number}: not an answer that was kept", "record the run again") from error
