"""Runs one instance of any service on a host for one trial: put, check, start, ready, prove, stop.

Nothing here knows a server software. The process is a Job of the host, so its lease ends it whatever becomes of us.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from loadbook.hosts.host import Answer, Completed, Host, Job, JobState
from loadbook.services.asking import POLL_S, Heard, ServiceError, hear, listens
from loadbook.services.build import build
from loadbook.services.launch import AS_LOGGED_IN, Launch
from loadbook.services.render import Rendered
from loadbook.services.spec import ServiceSpec

CONTROL_S = 20.0
LOG_BYTES = 4000

# Prints the ids of processes called $2 in the session or process group that $1 leads.
PIDS = """leader=$1 name=$2
for file in /proc/[0-9]*/stat; do
  { read -r line < "$file"; } 2>/dev/null || continue
  comm=${line#*\\(} comm=${comm%\\)*}
  [ "$comm" = "$name" ] || continue
  pid=${line%% *}
  set -- ${line##*\\) }
  if [ "$3" = "$leader" ] || [ "$4" = "$leader" ]; then echo "$pid"; fi
done
"""


class Proof(NamedTuple):
    """Is the configuration live? None where the service has no way to say. `evidence` is a sentence."""

    live: bool | None
    evidence: str
    pids: list[int]


def version(host: Host, spec: ServiceSpec) -> str:
    """Return the version of the service's binary on a host, and what tells a program that is built from others.

    It is built if need be. ServiceError names the package of a missing binary, BuildError what building needs.
    """
    program = build(host, spec).version if spec.build else ""
    if spec.version is None:
        return program
    done = host.run(spec.version.argv, timeout_s=CONTROL_S)
    if done.rc == 127:
        raise ServiceError(host.alias, f"{spec.binary} is not installed", _install(spec))
    found = re.search(spec.version.pattern, (done.stdout + b"\n" + done.stderr).decode(errors="replace"))
    if not found:
        raise ServiceError(
            host.alias, f"{spec.name}: no version from {' '.join(spec.version.argv)}: {_words(done)}", _install(spec)
        )
    return f"{found[1]} {program}" if program else found[1]


class Instance:
    """One rendered service on one host, for one trial.

    Parameters
    ----------
    name : of the Job and of the folder; unique on the host within the run.
    lease_s : seconds after which the host ends the processes by itself.
    launch : CPUs and open files that its processes get.
    """

    def __init__(
        self,
        host: Host,
        spec: ServiceSpec,
        rendered: Rendered,
        *,
        name: str,
        lease_s: float,
        launch: Launch = AS_LOGGED_IN,
    ) -> None:
        self.host, self.spec, self.rendered, self.name, self.lease_s = host, spec, rendered, name, lease_s
        self.launch = launch
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

    @property
    def scheme(self) -> str:
        """What its port speaks: http or https."""
        return self.rendered.scheme

    def check(self) -> None:
        """Put the files on the host, let the service check them, and keep its dump of what it understood.

        What is built is built first if need be. Raises ServiceError with the service's own words, or BuildError;
        nothing has been started then.
        """
        self._touched = True
        if self.spec.build:
            build(self.host, self.spec)
        self.launch.check(self.host)
        for name, data in self.rendered.files.items():
            self.host.put(f"{self.rendered.place.dir}/{name}", data)
        self._must("prepare", "could not be prepared")
        self._must("check", "refuses its configuration")
        self._dump = self._must("effective", "does not dump its configuration")

    def _must(self, name: str, what: str) -> bytes:
        """Run a command of the service that must succeed, if it has it, and return what it prints."""
        argv = self.rendered.commands.get(name)
        if argv is None:
            return b""
        done = self.host.run(argv, timeout_s=CONTROL_S)
        if done.rc == 127:
            raise ServiceError(self.host.alias, f"{argv[0]} is not there", _install(self.spec, argv[0]))
        if done.rc:
            raise ServiceError(self.host.alias, f"{self.spec.name} {what} (exit code {done.rc}): {_words(done)}")
        return done.stdout

    def start(self) -> int:
        """Start a fresh process and return the id of its job's leader; it ends with its lease or with us."""
        self._leader = self.host.start(self.job)
        return self._leader

    @property
    def job(self) -> Job:
        """The job that its processes run in."""
        argv = self.launch.argv(self.rendered.commands["start"])
        return Job(self.name, (argv,), self.lease_s, ends_with_us=True)

    def ready(self, asker: Host) -> Answer:
        """Wait until the service is there; ServiceError with the log's end when it died or is too late.

        `asker` asks over HTTP; the status of an answer that is no HTTP is 0.
        """
        deadline, pause = time.monotonic() + self.spec.ready.timeout_s, POLL_S[0]
        while True:
            heard = self._heard(asker)
            if heard.answer and self._is_ready(heard):
                return heard.answer
            self._alive()
            if time.monotonic() > deadline:
                late = f"{heard.where} is not as awaited within {self.spec.ready.timeout_s:g} s: {heard.seen}"
                raise ServiceError(self.host.alias, f"{late}\n{self._last_words()}")
            time.sleep(pause)
            pause = min(pause * 2, POLL_S[1])

    def _heard(self, asker: Host) -> Heard:
        if self.spec.ready.tcp or (self.spec.ready.side and not self.rendered.tells):
            return listens(self.host, self.address, self.port)
        return hear(self.spec.ready, "ready", self.rendered, self.host, asker)

    def _is_ready(self, heard: Heard) -> bool:
        """Tell whether an answer is the awaited one; of a user's own file any answer is."""
        if not (heard.fine and heard.answer):
            return False
        if not heard.answer.status:
            return self.rendered.says.get("ready", "") in heard.text
        return heard.answer.status == self.spec.ready.status or not self.rendered.tells

    def state(self) -> JobState:
        """Tell how its job stands."""
        return self.host.state(self.name)

    @property
    def changes(self) -> dict[str, str]:
        """What it changes of its host beside its own folder, for the trial's record."""
        return {}

    def _alive(self) -> None:
        state = self.state()
        if not state.running:
            raise ServiceError(
                self.host.alias, f"{self.spec.name} ended with exit code {state.rc}: {self._last_words()}"
            )

    def prove(self, asker: Host) -> Proof:
        """Ask the live server, from `asker`, which configuration it runs, and look whether the process is ours."""
        live, evidence = self._asked(asker)
        pids = self.pids()
        if live is not False and pids:
            evidence += f"; process {pids[0]} was started with it"
        elif not pids:
            live = False
            evidence += f"; no process {self.spec.process_name} of ours is running: {self._last_words()}"
        return Proof(live, evidence, pids)

    def _asked(self, asker: Host) -> tuple[bool | None, str]:
        if self.spec.prove is None:
            return None, f"{self.spec.name} has no way to tell its configuration"
        if not self.rendered.tells:
            return (
                None,
                f"the study's own {self.spec.main} does not hold config_id, so nothing asks the process for it",
            )
        heard = hear(self.spec.prove, "prove", self.rendered, self.host, asker)
        if heard.answer is None:
            return False, f"{heard.where}: {heard.seen}"
        wanted = self.rendered.says["prove"]
        if heard.answer.status == 200 and heard.text.strip() == wanted:
            return True, f"{heard.where} answered {wanted}, as rendered"
        if not heard.answer.status and heard.fine and wanted in heard.text:
            return True, f"{heard.where} printed {wanted}, as rendered"
        said = (
            f"{heard.answer.status or 'with'} {heard.text[:100].strip()!r}, not {wanted!r}"
            if heard.fine
            else heard.seen
        )
        return False, f"{heard.where} answered {said}: another server, or an older configuration"

    @property
    def counts(self) -> bool:
        """Whether it is asked what it has counted."""
        return self.spec.counters is not None and self.rendered.says["counters"] != "off"

    def counters(self, asker: Host) -> dict[str, float]:
        """Return what the service has counted since its start, by name; empty when it does not count.

        Asking counts, too. A user's own file may leave the counters out; else ServiceError when they are not found.
        """
        wanted = self.spec.counters
        if wanted is None or not self.counts:
            return {}
        heard = hear(wanted, "counters", self.rendered, self.host, asker)
        found = {name: re.findall(pattern, heard.text, re.MULTILINE) for name, pattern in wanted.patterns.items()}
        counts = {name: sum(map(float, texts)) for name, texts in found.items() if texts}
        if not counts and self.rendered.tells:
            raise ServiceError(self.host.alias, f"{heard.where}: no counters of {self.spec.name}: {heard.seen}")
        return counts

    def pids(self) -> list[int]:
        """Return the ids of the service's own processes, oldest first; empty when it is not running."""
        if self._leader is None:
            return []
        argv = (str(self._leader), self.spec.process_name)
        done = self.host.script(PIDS, argv, timeout_s=CONTROL_S)
        return sorted(int(word) for word in done.stdout.split())

    def effective(self) -> bytes:
        """Return the service's own dump of its configuration, as of `check`."""
        return self._dump

    def log(self) -> bytes:
        """Return the last bytes that the service wrote to stderr; empty when there is nothing."""
        return self._end_of(self.log_file)

    @property
    def log_file(self) -> str:
        """The file on its host that it logs to."""
        return self._stream("stderr")

    def _stream(self, name: str) -> str:
        return f"{self.host.workdir}/jobs/{self.name}/{name}.1"

    def _end_of(self, path: str) -> bytes:
        return self.host.run(["tail", "-c", str(LOG_BYTES), path], timeout_s=CONTROL_S).stdout

    def _last_words(self) -> str:
        """Return the end of its log; some write it to stdout."""
        said = self.log().strip() or self._end_of(self._stream("stdout")).strip()
        return said.decode(errors="replace")[-800:] or "it said nothing"

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


def _install(spec: ServiceSpec, program: str | None = None) -> str:
    return f"apt-get install {spec.package if program in (None, spec.binary) else program}"
