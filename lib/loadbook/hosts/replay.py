"""Transcripts of the calls to hosts, and hosts that answer from them, so that a run can be repeated without hosts.

A transcript lists, as JSON lines in order, every control command, script, HTTP request, clock probe, token and job
start with its answer; outputs of jobs are files of the trial. Commands are stored without the parts that differ
between runs (work folder, names of run and attempt), scripts as their first line. A replay executes nothing; a
command that was not recorded raises HostError.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, cast

from loadbook.core.errors import CommandError, DataError, HostError, HostTimeoutError, NotRecordedError
from loadbook.hosts.host import ClockOffset, CommandResult, Host, HttpResponse, Job, JobState
from loadbook.hosts.jobs import CALIBRATION_SUFFIX, CPU_READINGS_PROGRAM, WARMUP_SUFFIX, job_folder
from loadbook.modes.base import mode_of_block, mode_of_record
from loadbook.store.atomic import explain_disk_full
from loadbook.store.paths import RunPaths
from loadbook.store.trial_record import (
    DriverRecord,
    TrialRecord,
    changed_files,
    read_trial,
    sha256_file,
)
from loadbook.study.plan import PlannedTrial

if TYPE_CHECKING:
    from loadbook.modes.plain.replay import PlainReplay

# a larger response body is not recorded; a replay then raises HostError for that request
MAX_RECORDED_BODY_BYTES = 64_000

CallKey = tuple[str, ...]


def transcript_name(alias: str) -> str:
    """Return the name of a host's transcript in the folder of a trial or a run."""
    return f"answers-{alias}"


def cpu_readings_name(alias: str) -> str:
    """Return the name of the file with the readings of services' CPU times on a host, in the folder of a trial."""
    return f"cpu-readings-{alias}"


def call_key(call: str, args: Sequence[str], workdir: str, run: str) -> CallKey:
    """Return the key by which a replay finds a call in the transcript of the recorded run.

    Parameters
    ----------
    call : name of the method of `Host`, such as "run".
    args : its arguments as texts; of each, only the first line that is not blank is part of the key.
    workdir, run : the host's work folder and the run's id, which placeholders replace.
    """

    def general(word: str) -> str:
        """Return the first non-blank line, with placeholders for the parts that differ between runs."""
        word = re.sub(rf"{re.escape(run)}-t\d+-a\d+", "{trial}", word.replace(workdir, "{workdir}"))
        return next((line.strip() for line in word.replace(run, "{run}").splitlines() if line.strip()), "")

    return (call, *map(general, args))


class RecordingHost(Host, Protocol):
    """A host that records every call and its answer in a transcript."""

    def take_transcript(self) -> bytes:
        """Return the calls since the last `take_transcript` or `set_trial`, each as a JSON line with its answer."""
        ...


def record_host(host: Host, run: str) -> RecordingHost:
    """Return a host that passes all calls on to `host` and records the answers; `run` is the run's id."""
    return cast("RecordingHost", _Recorder(host, run))


class _Recorder:
    """Passes all calls on to the host and records the answers; calls that raise an error are not recorded."""

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
        return self._record_result("run", argv, self._host.run(argv, **options))

    def script(self, text: str, args: Sequence[str] = (), **options: Any) -> CommandResult:
        return self._record_result("script", [text, *args], self._host.script(text, args, **options))

    def _record_result(self, call: str, args: Sequence[str], done: CommandResult) -> CommandResult:
        self._record(call, args, [done.rc, _decode_bytes(done.stdout), _decode_bytes(done.stderr)])
        return done

    def http_get(self, address: str, port: int, path: str, **options: Any) -> HttpResponse:
        answer = self._host.http_get(address, port, path, **options)
        body = _decode_bytes(answer.body) if len(answer.body) <= MAX_RECORDED_BODY_BYTES else None
        self._record("http_get", [f"{address}:{port}{path}"], [answer.status, answer.headers, body])
        return answer

    def clock(self) -> ClockOffset:
        clock = self._host.clock()
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


def _decode_bytes(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class Transcript:
    """The answers in the transcript `path`, by call; empty if there is no such file.

    A call that is made more often than it was recorded gets its last recorded answer again.
    """

    def __init__(self, path: Path) -> None:
        self._answers: dict[CallKey, deque[Any]] = {}
        lines = path.read_text(encoding="ascii").splitlines() if path.is_file() else []
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                self._answers.setdefault(tuple(entry["asked"]), deque()).append(entry["answer"])
            except (ValueError, KeyError, TypeError) as error:
                problem = f"{path}:{number}: not an answer that was kept"
                raise DataError(problem, "record the run again") from error

    def next_answer(self, key: CallKey) -> Any:
        """Return the next recorded answer to the call with this `call_key`; KeyError if the call was not recorded."""
        answers = self._answers[key]
        return answers.popleft() if len(answers) > 1 else answers[0]

    def command_result(self, key: CallKey) -> CommandResult:
        """Return the next recorded result of a command or script; KeyError if it was not recorded."""
        rc, stdout, stderr = self.next_answer(key)
        return CommandResult(rc, _encode_text(stdout), _encode_text(stderr))

    def http_response(self, key: CallKey) -> HttpResponse:
        """Return the next recorded HTTP response; KeyError if it, or its (too large) body, was not recorded."""
        status, headers, body = self.next_answer(key)
        if body is None:
            raise KeyError("body")
        return HttpResponse(status, headers, _encode_text(body))


_HINT = "a replay needs study and loadbook as they were when the run was recorded; else record it again"
T = TypeVar("T")


class RecordedRun:
    """A recorded run in the folder `run`, with the last attempt of every trial by treatment and block.

    DataError if the folder contains no recorded trial.
    """

    def __init__(self, run: Path) -> None:
        self.run, paths = run, RunPaths(run, run)
        failed = sorted(paths.failed.glob("*/trial.json"), key=lambda p: int(p.parent.name.rpartition("-attempt")[2]))
        published = sorted(paths.trials.glob("*/trial.json"))
        self._trials: dict[tuple[str, int], tuple[Path, TrialRecord]] = {}
        for path in (*failed, *published):
            record = read_trial(path.parent)
            self._trials[record.treatment, record.block] = path.parent, record
        if not self._trials:
            raise DataError(f"{run} holds no recorded trial")

    @property
    def id(self) -> str:
        """Id of the recorded run."""
        return self.run.name

    def executions(self, trials: Iterable[PlannedTrial]) -> frozenset[str]:
        """Return how those of these trials that were recorded were executed, such as "plain" or "interleaved"."""
        recorded = (self._trials.get((t.treatment, t.block)) for t in trials)
        return frozenset(mode_of_record(attempt[1]).execution for attempt in recorded if attempt)

    def trials_of_block(self, block: int) -> list[tuple[Path, TrialRecord]]:
        """Return folder and record of every recorded trial of a block."""
        return [attempt for (_, number), attempt in self._trials.items() if number == block]

    def replay_of_block(self, block: int) -> PlainReplay:
        """Return the object that plays a block back, by the mode (such as interleaved) that its records contain.

        A trial that failed may have no record of its mode; the other trials of its block decide.
        """
        records = [record for _, record in self.trials_of_block(block)]
        return cast("PlainReplay", mode_of_block(records).facet("replay"))

    def missing_trials(self, trials: Iterable[PlannedTrial]) -> list[PlannedTrial]:
        """Return the planned trials that were not recorded."""
        return [t for t in trials if (t.treatment, t.block) not in self._trials]

    def find_trial(self, planned: PlannedTrial) -> tuple[Path, TrialRecord]:
        """Return folder and record of a trial; DataError if it was not recorded or a file does not match its sha256."""
        recorded = self._trials.get((planned.treatment, planned.block))
        if recorded is None:
            raise DataError(f"run {self.id} has no trial of {planned.treatment} in block {planned.block}")
        changed = changed_files(*recorded)
        if changed:
            raise DataError(f"{recorded[0] / changed[0]} is missing or no longer matches its sha256")
        return recorded


class ReplayHost(Host):
    """The host `alias` of a recorded run; it answers calls from the run's transcripts and files.

    Parameters
    ----------
    address : address that the load was sent to.
    folder : local folder that takes the place of the host's work folder; `open` makes it and `close` removes it.
    run : id of the new run that replays the recorded one; names of jobs and folders begin with it.
    """

    live = False
    reconnects = 0

    def __init__(self, recorded_run: RecordedRun, alias: str, address: str, folder: Path, run: str) -> None:
        self.alias, self.address, self.workdir = alias, address, str(folder)
        self._recorded_run, self._run = recorded_run, run
        self._pids: dict[str, int] = {}
        self._recorded_trial: tuple[Path, TrialRecord] | None = None
        self._run_transcript = self._transcript = Transcript(recorded_run.run / transcript_name(alias))

    def open(self) -> None:
        """Make the work folder."""
        Path(self.workdir).mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Remove the work folder."""
        shutil.rmtree(self.workdir, ignore_errors=True)

    abandon = close

    def reopen(self) -> None:
        """Replace the work folder by an empty one."""
        self.close()
        self.open()

    def set_trial(self, planned: PlannedTrial | None) -> None:
        """Replay the recorded trial of the same treatment and block; None replays the calls outside all trials."""
        self._recorded_trial, self._transcript = None, self._run_transcript
        if planned is not None:
            try:
                self._recorded_trial = self._recorded_run.find_trial(planned)
            except DataError as error:
                raise HostError(self.alias, f"replay of {planned.trial}: {error.message}") from error
            self._transcript = Transcript(self._recorded_trial[0] / transcript_name(self.alias))

    def _context(self) -> str:
        trial = f", trial {self._recorded_trial[1].trial}" if self._recorded_trial else ""
        return f"replay of run {self._recorded_run.id}{trial}"

    def _lookup(self, lookup: Callable[[CallKey], T], call: str, args: Sequence[str]) -> T:
        key = call_key(call, args, self.workdir, self._run)
        try:
            return lookup(key)
        except KeyError:
            problem = f"{self._context()}: not recorded: {' '.join(key)[:160]}"
            raise NotRecordedError(self.alias, problem, _HINT) from None

    def run(self, argv: Sequence[str], *, timeout_s: float, check: bool = False) -> CommandResult:
        """Return the recorded result of the command; with `check`, an exit code other than 0 raises CommandError."""
        return self._check_rc(self._lookup(self._transcript.command_result, "run", argv), check, argv[0])

    def script(self, text: str, args: Sequence[str] = (), *, timeout_s: float, check: bool = False) -> CommandResult:
        """Return the recorded result of the script; with `check`, an exit code other than 0 raises CommandError."""
        return self._check_rc(self._lookup(self._transcript.command_result, "script", [text, *args]), check, "a script")

    def _check_rc(self, done: CommandResult, check: bool, command: str) -> CommandResult:
        if check and done.rc:
            raise CommandError(self.alias, f"{self._context()}: {command} ended with exit code {done.rc}")
        return done

    def http_get(self, address: str, port: int, path: str, *, timeout_s: float, scheme: str = "http") -> HttpResponse:
        """Return the recorded response."""
        return self._lookup(self._transcript.http_response, "http_get", [f"{address}:{port}{path}"])

    def clock(self) -> ClockOffset:
        """Return the recorded clock offset."""
        return ClockOffset(*self._lookup(self._transcript.next_answer, "clock", []))

    def connect(self, port: int, *, timeout_s: float) -> NoReturn:
        """Raise HostError, because a replay has no live service; monitors' answers come from `recorded_file`."""
        raise HostError(self.alias, f"{self._context()}: nothing answers at port {port}")

    def recorded_file(self, name: str) -> bytes:
        """Return a file of the recorded trial; empty if the trial has no such file."""
        path = self._recorded_trial[0] / name if self._recorded_trial else None
        return path.read_bytes() if path and path.is_file() else b""

    def token(self, name: str) -> str:
        """Return the recorded token for `name`, so that it matches the one in the recorded server's responses."""
        return str(self._lookup(self._transcript.next_answer, "token", [name]))

    def _path(self, path: str) -> Path:
        return Path(self.workdir) / path

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file below the work folder."""
        target = self._path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)

    def get(self, path: str, *, max_bytes: int) -> bytes:
        """Read a file of the work folder; HostError if it does not exist or is larger than `max_bytes`."""
        try:
            data = self._path(path).read_bytes()
        except OSError as error:
            raise HostError(self.alias, f"reading {path}: {error.strerror}") from error
        if len(data) > max_bytes:
            raise HostError(self.alias, f"{path} is larger than the {max_bytes} bytes allowed")
        return data

    def fetch(self, path: str, local: Path, *, max_bytes: int) -> str:
        """Copy a file and return its sha256 (hex); HostError if it is larger than `max_bytes`."""
        data = self.get(path, max_bytes=max_bytes)
        local.parent.mkdir(parents=True, exist_ok=True)
        with explain_disk_full(local, len(data)):
            local.write_bytes(data)
        return sha256_file(local)

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        return self._path(path).exists()

    def remove(self, path: str) -> None:
        """Remove a file or folder below the work folder."""
        target = self._path(path).resolve()
        if Path(self.workdir).resolve() not in target.parents:
            raise HostError(self.alias, f"refuses to remove {target}: not below {self.workdir}")
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def start(self, job: Job) -> int:
        """Write the files of the recorded job and return its recorded process id; no process is started."""
        pid = int(self._lookup(self._transcript.next_answer, "start", [job.name, *job.steps[-1]]))
        folder = self._path(job_folder(job.name))
        if folder.exists():
            raise HostError(self.alias, f"there is already a job {job.name}")
        folder.mkdir(parents=True)
        if self._recorded_trial is not None:
            for name, data in self._job_files(job, *self._recorded_trial):
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(data)
        self._pids[job.name] = pid
        return pid

    def _job_files(self, job: Job, source: Path, record: TrialRecord) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of each file of a load job or of the sampler; nothing for a service's job."""
        mode = self._recorded_run.replay_of_block(record.block)
        source, record = mode.measured_trial(self._recorded_run, source, record)
        driver = next((d for d in record.drivers if d.host == self.alias and tuple(d.argv) == job.steps[-1]), None)
        monitor = next((m for m in record.monitors if m.host == self.alias), None)
        if job.name.endswith(WARMUP_SUFFIX):
            for stream in ("stdout", "stderr"):
                yield f"{stream}.1", self.recorded_file(f"warmup-{stream}-{self.alias}")
        if (own := mode.job_files(self._recorded_run, job, record, self.alias)) is not None:
            yield from own
        elif job.name.endswith((CALIBRATION_SUFFIX, WARMUP_SUFFIX)):
            yield f"rc.{len(job.steps)}", b"0\n"
            yield "rc", b"0\n"
        elif CPU_READINGS_PROGRAM in job.steps[-1]:
            yield "stdout.1", self.recorded_file(cpu_readings_name(self.alias))
        elif driver:
            yield from load_job_files(driver, source, len(job.steps))
        elif monitor and "sampler" in job.steps[-1]:
            yield "stdout.1", (source / monitor.file).read_bytes()
            yield "stderr.1", b""

    def state(self, name: str) -> JobState:
        """Return the state of a job: a load has ended at once; services and monitors run until they are stopped."""
        folder = self._path(job_folder(name))
        if not folder.is_dir():
            return JobState(None, None, False)
        rc, pid = folder / "rc", self._pids.get(name)
        return JobState(pid, int(rc.read_text()), False) if rc.is_file() else JobState(pid, None, True)

    def wait(self, name: str, *, timeout_s: float, expect_s: float | None = None) -> int:
        """Return the recorded exit code at once; HostTimeoutError for a job that runs until it is stopped."""
        rc = self.state(name).rc
        if rc is None:
            raise HostTimeoutError(self.alias, f"job {name} did not end within {timeout_s:g} s")
        return rc

    def stop(self, name: str, *, grace_s: float = 5.0) -> None:
        """Mark a running job as ended with exit code 143 (TERM)."""
        if self.state(name).running:
            self._path(f"{job_folder(name)}/rc").write_text("143\n")


def load_job_files(driver: DriverRecord, source: Path, steps: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files of a load job, whose last step is the measurement, after a warm-up."""
    for stream, name in (("stdout", driver.stdout), ("stderr", driver.stderr)):
        yield f"{stream}.{steps}", (source / name).read_bytes()
        warmup = source / f"warmup-{name}"
        if steps > 1 and warmup.is_file():
            yield f"{stream}.{steps - 1}", warmup.read_bytes()
    for name, file_name in driver.files.items():
        yield name, (source / file_name).read_bytes()
    if driver.started_host is not None:
        yield f"times.{steps}", f"{driver.started_host!r} {driver.ended_host!r}\n".encode()
    yield f"rc.{steps}", f"{driver.rc}\n".encode()
    yield "rc", f"{driver.rc}\n".encode()
