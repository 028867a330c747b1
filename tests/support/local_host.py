"""Implementation of the protocol Host for the test's own machine: real processes and files, without SSH."""

import contextlib
import http.client
import os
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from paramiko import Channel

from loadbook.core.errors import CommandError, HostError, HostTimeoutError, UnreachableError
from loadbook.hosts.host import ClockOffset, CommandResult, Host, HttpResponse, Job, JobState
from loadbook.study.plan import PlannedTrial


class LocalHost(Host):
    alias = "here"
    address = "127.0.0.1"
    live = True
    reconnects = 0

    def __init__(self, workdir: Path, env: dict[str, str] | None = None) -> None:
        self.workdir, self.env = str(workdir), env
        self.jobs: dict[str, subprocess.Popen[bytes]] = {}

    def open(self) -> None:
        pass

    def close(self) -> None:
        for name in self.jobs:
            self.stop(name, grace_s=0.5)

    def run(self, argv: Sequence[str], *, timeout_s: float, check: bool = False) -> CommandResult:
        try:
            done = subprocess.run(
                list(argv), input=b"", capture_output=True, timeout=timeout_s, check=False, env=self.env
            )
        except FileNotFoundError as error:
            return CommandResult(127, b"", str(error).encode())
        except subprocess.TimeoutExpired as error:
            raise HostTimeoutError(self.alias, str(error)) from None
        if check and done.returncode:
            raise CommandError(self.alias, f"{argv}: {done.stderr.decode()}")
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def script(self, text: str, args: Sequence[str] = (), *, timeout_s: float, check: bool = False) -> CommandResult:
        return self.run(["sh", "-c", text, "sh", *args], timeout_s=timeout_s, check=check)

    def _path(self, path: str) -> Path:
        return Path(self.workdir, path)

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self._path(path).parent.mkdir(parents=True, exist_ok=True)
        self._path(path).write_bytes(data)
        self._path(path).chmod(mode)

    def get(self, path: str, *, max_bytes: int) -> bytes:
        return self._path(path).read_bytes()

    def fetch(self, path: str, local: Path, *, max_bytes: int) -> str:
        raise NotImplementedError

    def exists(self, path: str) -> bool:
        return self._path(path).exists()

    def remove(self, path: str) -> None:
        target = self._path(path).resolve()
        if not target.is_relative_to(Path(self.workdir).resolve()):
            raise HostError(self.alias, f"{path} is outside {self.workdir}")
        shutil.rmtree(target, ignore_errors=True)

    def start(self, job: Job) -> int:
        folder = self._path(f"jobs/{job.name}")
        folder.mkdir(parents=True)
        assert len(job.steps) == 1
        with (folder / "stdout.1").open("wb") as out, (folder / "stderr.1").open("wb") as err:
            process = subprocess.Popen(job.steps[0], stdout=out, stderr=err, cwd=folder, start_new_session=True)
        self.jobs[job.name] = process
        return process.pid

    def state(self, name: str) -> JobState:
        process = self.jobs[name]
        rc = process.poll()
        return JobState(process.pid, rc, rc is None)

    def wait(self, name: str, *, timeout_s: float, expect_s: float | None = None) -> int:
        try:
            return self.jobs[name].wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise HostTimeoutError(self.alias, str(error)) from None

    def stop(self, name: str, *, grace_s: float = 5.0) -> None:
        if name not in self.jobs:
            return
        process = self.jobs[name]
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace_s)
                return

    def reopen(self) -> None:
        raise NotImplementedError

    def abandon(self) -> None:
        self.close()

    def set_trial(self, planned: PlannedTrial | None) -> None:
        pass

    def token(self, name: str) -> str:
        raise NotImplementedError

    def connect(self, port: int, *, timeout_s: float) -> Channel:
        raise NotImplementedError

    def recorded_file(self, name: str) -> bytes:
        return b""

    def http_get(self, address: str, port: int, path: str, *, timeout_s: float, scheme: str = "http") -> HttpResponse:
        if scheme == "https":
            unchecked = ssl._create_unverified_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                address, port, timeout=timeout_s, context=unchecked
            )
        else:
            connection = http.client.HTTPConnection(address, port, timeout=timeout_s)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return HttpResponse(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(self.alias, str(error)) from None
        finally:
            connection.close()

    def clock(self) -> ClockOffset:
        return ClockOffset(time.time() - time.time(), 0.0)
