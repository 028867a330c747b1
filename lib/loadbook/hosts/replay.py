"""A host that plays back a recorded run: its jobs leave behind what the recorded trial's jobs left behind.

For trying, without any host, what starts load, waits for it and collects its outputs. Nothing is executed: control
commands and HTTP requests were not recorded and raise HostError.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from loadbook.core.errors import DataError, HostError, HostTimeoutError
from loadbook.hosts.host import Answer, Clock, Completed, Job, JobState
from loadbook.records.layout import check_name
from loadbook.records.manifest import DriverRecord, TrialRecord, read, sha256_file

NO_PID = 0


class ReplayHost:
    """The host `alias` of the run recorded in `run`; its work folder is `folder`, a local one.

    A job belongs to the trial whose name is a part of its own ("r1-t0007-a1-load" to t0007). If the trial's driver
    ran the program of the job's last step here, that is what is played back; a job of a shell script is the sampler;
    any other job runs until it is stopped.
    """

    def __init__(self, run: Path, alias: str, folder: Path) -> None:
        self.alias, self.address, self.workdir = alias, "127.0.0.1", str(folder)
        self._trials = {path.parent.name: path.parent for path in sorted(run.glob("trials/*/trial.json"))}
        if not self._trials:
            raise DataError(f"{run} holds no recorded trial")
        self._clock = Clock(0.0, 0.0)

    def open(self) -> None:
        """Make the work folder."""
        Path(self.workdir).mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Do nothing; the work folder is the caller's."""

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", check: bool = False) -> Completed:
        """Raise HostError: commands were not recorded."""
        raise HostError(self.alias, f"a replay runs nothing, not even {' '.join(argv)[:80]!r}")

    def script(self, text: str, args: Sequence[str] = (), *, timeout_s: float, check: bool = False) -> Completed:
        """Raise HostError: scripts were not recorded."""
        return self.run(["sh", "-c", text, *args], timeout_s=timeout_s)

    def http_get(self, address: str, port: int, path: str, *, timeout_s: float, scheme: str = "http") -> Answer:
        """Raise HostError: answers were not recorded, only their sizes and digests."""
        raise HostError(self.alias, f"a replay asks no server, not even for {path!r}")

    def clock(self, probes: int = 10) -> Clock:
        """Return the offset recorded for the trial of the last job started."""
        return self._clock

    def _path(self, path: str) -> Path:
        return Path(self.workdir) / path

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file below the work folder."""
        target = self._path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)

    def get(self, path: str, *, max_bytes: int) -> bytes:
        """Read a file; one that is not there or larger than `max_bytes` raises HostError."""
        try:
            data = self._path(path).read_bytes()
        except OSError as error:
            raise HostError(self.alias, f"reading {path}: {error.strerror}") from error
        if len(data) > max_bytes:
            raise HostError(self.alias, f"{path} is larger than the {max_bytes} bytes allowed")
        return data

    def fetch(self, path: str, local: Path, *, max_bytes: int) -> str:
        """Copy a file and return its sha256 (hex)."""
        data = self.get(path, max_bytes=max_bytes)
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_bytes(data)
        return sha256_file(local)

    def exists(self, path: str) -> bool:
        """Tell whether a path is there."""
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
        """Lay down what the recorded job left behind; returns NO_PID, since no process runs."""
        trial = next((name for name in self._trials if name in job.name.split("-")), None)
        if trial is None:
            raise HostError(self.alias, f"job {job.name}: no such trial was recorded")
        folder = self._job(job.name)
        if folder.exists():
            raise HostError(self.alias, f"there is already a job {job.name}")
        folder.mkdir(parents=True)
        source = self._trials[trial]
        for name, data in self._left_behind(job, source, read(source)):
            (folder / name).write_bytes(data)
        return NO_PID

    def _left_behind(self, job: Job, source: Path, record: TrialRecord) -> Iterator[tuple[str, bytes]]:
        """Yield names and contents of the files of a job's folder."""
        if self.alias in record.clocks:
            clock = record.clocks[self.alias]
            self._clock = Clock(clock.offset_before_s, clock.rtt_before_s)
        driver = next((d for d in record.drivers if d.host == self.alias and d.argv[:1] == [job.steps[-1][0]]), None)
        monitor = next((m for m in record.monitors if m.host == self.alias), None)
        if driver:
            yield from _load_files(driver, source, len(job.steps))
        elif monitor and "sampler" in job.steps[-1]:
            yield "stdout.1", (source / monitor.file).read_bytes()
            yield "stderr.1", b""

    def _job(self, name: str) -> Path:
        return self._path(f"jobs/{check_name('job', name)}")

    def state(self, name: str) -> JobState:
        """Tell how a job stands: over when it was a recorded load, else running until it is stopped."""
        if not self._job(name).is_dir():
            return JobState(None, None, False)
        rc = self._job(name) / "rc"
        return JobState(NO_PID, int(rc.read_text()), False) if rc.is_file() else JobState(NO_PID, None, True)

    def wait(self, name: str, *, timeout_s: float, expect_s: float | None = None) -> int:
        """Return the recorded rc at once; HostTimeoutError for a job that runs until it is stopped."""
        rc = self.state(name).rc
        if rc is None:
            raise HostTimeoutError(self.alias, f"job {name} did not end within {timeout_s:g} s")
        return rc

    def stop(self, name: str, *, grace_s: float = 5.0) -> None:
        """End a job that runs until it is stopped."""
        if self._job(name).is_dir() and self.state(name).running:
            (self._job(name) / "rc").write_text("143\n")


def _load_files(driver: DriverRecord, source: Path, steps: int) -> Iterator[tuple[str, bytes]]:
    """Yield what a load job left behind: its last step is the measurement, the one before it the warm-up."""
    for stream, name in (("stdout", driver.stdout), ("stderr", driver.stderr)):
        yield f"{stream}.{steps}", (source / name).read_bytes()
        warmup = source / f"warmup-{name}"
        if steps > 1 and warmup.is_file():
            yield f"{stream}.{steps - 1}", warmup.read_bytes()
    for name, kept in driver.files.items():
        yield name, (source / kept).read_bytes()
    if driver.started_host is not None:
        yield f"times.{steps}", f"{driver.started_host!r} {driver.ended_host!r}\n".encode()
    yield f"rc.{steps}", f"{driver.rc}\n".encode()
    yield "rc", f"{driver.rc}\n".encode()
