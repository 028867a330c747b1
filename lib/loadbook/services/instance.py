"""Runs one instance of any service on a host for one trial: put, check, start, ready, prove, stop.

Nothing here knows a server software. The process is a Job of the host, so its lease ends it whatever becomes of us.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from loadbook.core.errors import HostError, LostError
from loadbook.hosts.host import Answer, Completed, Host, Job
from loadbook.services.render import Rendered
from loadbook.services.spec import ServiceSpec

CONTROL_S = 20.0
ASK_S = 2.0
LOG_BYTES = 4000
_POLL_S = (0.005, 0.1)

# Prints the ids of processes called $2 in the session or process group that $1 leads.
_PIDS = """leader=$1 name=$2
for file in /proc/[0-9]*/stat; do
  { read -r line < "$file"; } 2>/dev/null || continue
  comm=${line#*\\(} comm=${comm%\\)*}
  [ "$comm" = "$name" ] || continue
  pid=${line%% *}
  set -- ${line##*\\) }
  if [ "$3" = "$leader" ] || [ "$4" = "$leader" ]; then echo "$pid"; fi
done
"""


class ServiceError(HostError):
    """A service that is missing, refuses its configuration, or does not come up; carries the tool's own words."""


class Proof(NamedTuple):
    """Is the configuration live? None where the service has no way to say. `evidence` is a sentence."""

    live: bool | None
    evidence: str
    pids: list[int]


def version(host: Host, spec: ServiceSpec) -> str:
    """Return the version of the service's binary on a host; ServiceError names the package when it is missing."""
    import re

    done = host.run(spec.version.argv, timeout_s=CONTROL_S)
    found = re.search(spec.version.pattern, (done.stdout + b"\n" + done.stderr).decode(errors="replace"))
    if not found:
        raise ServiceError(
            host.alias, f"{spec.name}: no version from {' '.join(spec.version.argv)}: {_words(done)}", _install(spec)
        )
    return found[1]


def ready_at(
    asker: Host, address: str, port: int, path: str = "/", *, status: int = 200, timeout_s: float = 10.0
) -> Answer:
    """Wait until a web server answers `path` with `status`, asked from `asker`; ServiceError when the time is up."""
    deadline, pause = time.monotonic() + timeout_s, _POLL_S[0]
    while True:
        answer, seen = _ask(asker, address, port, path)
        if answer and answer.status == status:
            return answer
        if time.monotonic() > deadline:
            where = f"http://{address}:{port}{path}"
            raise ServiceError(asker.alias, f"{where} did not answer {status} within {timeout_s:g} s: {seen}")
        time.sleep(pause)
        pause = min(pause * 2, _POLL_S[1])


def _ask(asker: Host, address: str, port: int, path: str) -> tuple[Answer | None, str]:
    try:
        answer = asker.http_get(address, port, path, timeout_s=ASK_S)
    except LostError:
        raise
    except HostError as error:
        return None, error.message
    return answer, f"answered {answer.status}"


class Instance:
    """One rendered service on one host, for one trial.

    Parameters
    ----------
    name : of the Job and of the folder; unique on the host within the run.
    lease_s : seconds after which the host ends the processes by itself.
    """

    def __init__(self, host: Host, spec: ServiceSpec, rendered: Rendered, *, name: str, lease_s: float) -> None:
        self.host, self.spec, self.rendered, self.name, self.lease_s = host, spec, rendered, name, lease_s
        self._dump = b""
        self._leader: int | None = None
        self._touched = False

    @property
    def address(self) -> str:
        """Address that the load goes to."""
        return self.rendered.place.address

    @property
    def port(self) -> int:
        """TCP port that the load goes to."""
        return self.rendered.place.port

    def check(self) -> None:
        """Put the files on the host, let the service check them, and keep its dump of what it understood.

        Raises ServiceError with the service's own words; nothing has been started then.
        """
        self._touched = True
        for name, data in self.rendered.files.items():
            self.host.put(f"{self.rendered.place.dir}/{name}", data)
        commands = self.rendered.commands
        if "check" in commands:
            self._must(self.host.run(commands["check"], timeout_s=CONTROL_S), "refuses its configuration")
        if "effective" in commands:
            done = self.host.run(commands["effective"], timeout_s=CONTROL_S)
            self._must(done, "does not dump its configuration")
            self._dump = done.stdout

    def _must(self, done: Completed, what: str) -> None:
        if done.rc == 127:
            raise ServiceError(self.host.alias, f"{self.spec.binary} is not there", _install(self.spec))
        if done.rc:
            raise ServiceError(self.host.alias, f"{self.spec.name} {what} (exit code {done.rc}): {_words(done)}")

    def start(self) -> int:
        """Start a fresh process and return the id of its job's leader; it ends with its lease or with us."""
        job = Job(self.name, (self.rendered.commands["start"],), self.lease_s, ends_with_us=True)
        self._leader = self.host.start(job)
        return self._leader

    def ready(self, asker: Host) -> Answer:
        """Wait until the service answers `asker`; ServiceError with the log's end when it died or is too late."""
        wanted = self.spec.ready
        deadline = time.monotonic() + wanted.timeout_s
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            try:
                return ready_at(
                    asker, self.address, self.port, wanted.path, status=wanted.status, timeout_s=min(left, 0.5)
                )
            except ServiceError as error:
                self._alive()
                if time.monotonic() >= deadline:
                    raise ServiceError(self.host.alias, f"{error.message}\n{self._last_words()}") from error

    def _alive(self) -> None:
        state = self.host.state(self.name)
        if not state.running:
            raise ServiceError(
                self.host.alias, f"{self.spec.name} ended with exit code {state.rc}: {self._last_words()}"
            )

    def prove(self, asker: Host) -> Proof:
        """Ask the live server, from `asker`, which configuration it runs, and look whether the process is ours."""
        live, evidence = self._asked(asker)
        pids = self.pids()
        if live and pids:
            evidence += f"; process {pids[0]} was started for it"
        elif not pids:
            live = False
            evidence += f"; no process {self.spec.process_name} of ours is running: {self._last_words()}"
        return Proof(live, evidence, pids)

    def _asked(self, asker: Host) -> tuple[bool | None, str]:
        if self.spec.prove is None:
            return None, f"{self.spec.name} has no way to tell its configuration"
        url = f"http://{self.address}:{self.port}{self.spec.prove.path}"
        answer, seen = _ask(asker, self.address, self.port, self.spec.prove.path)
        if answer is None:
            return False, f"{url}: {seen}"
        said = answer.body[:100].decode(errors="replace").strip()
        if answer.status == 200 and said == self.rendered.config_id:
            return True, f"{url} answered {said}, as rendered"
        words = f"{answer.status} {said!r}, not {self.rendered.config_id!r}"
        return False, f"{url} answered {words}: another server, or an older configuration"

    def pids(self) -> list[int]:
        """Return the ids of the service's own processes, oldest first; empty when it is not running."""
        if self._leader is None:
            return []
        argv = (str(self._leader), self.spec.process_name)
        done = self.host.script(_PIDS, argv, timeout_s=CONTROL_S)
        return sorted(int(word) for word in done.stdout.split())

    def effective(self) -> bytes:
        """Return the service's own dump of its configuration, as of `check`."""
        return self._dump

    def log(self) -> bytes:
        """Return the last bytes that the service wrote to stderr; empty when there is nothing."""
        path = f"{self.host.workdir}/jobs/{self.name}/stderr.1"
        return self.host.run(["tail", "-c", str(LOG_BYTES), path], timeout_s=CONTROL_S).stdout

    def _last_words(self) -> str:
        return self.log().decode(errors="replace").strip()[-800:] or "it said nothing"

    def stop(self) -> None:
        """End the processes and remove the instance's folder; calling it again, or before `start`, is fine."""
        if not self._touched:
            return
        try:
            self.host.stop(self.name, grace_s=self.spec.stop_grace_s)
        finally:
            self.host.remove(self.rendered.place.dir)
        self._leader, self._touched = None, False


def _words(done: Completed) -> str:
    return (done.stderr + done.stdout).decode(errors="replace").strip()[-800:] or "it said nothing"


def _install(spec: ServiceSpec) -> str:
    return f"apt-get install {spec.package}"
