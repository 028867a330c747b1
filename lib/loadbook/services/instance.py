"""Runs one instance of any service on a host for one trial: put, check, start, ready, prove, stop.

Nothing here knows a server software. The process is a Job of the host, so its lease ends it whatever becomes of us.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from loadbook.hosts.host import HttpResponse, CommandResult, Host, Job, JobState
from loadbook.services.asking import POLL_PAUSES_S, ProbeResult, ServiceError, run_probe, probe_port
from loadbook.services.build import build
from loadbook.services.launch import DEFAULT_LAUNCH, LaunchOptions
from loadbook.services.render import RenderedService
from loadbook.services.spec import ServiceSpec

CONTROL_TIMEOUT_S = 20.0
LOG_TAIL_BYTES = 4000

# Prints the ids of processes called $2 in the session or process group that $1 leads.
PIDS_SCRIPT = """leader=$1 name=$2
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
    done = host.run(spec.version.argv, timeout_s=CONTROL_TIMEOUT_S)
    if done.rc == 127:
        raise ServiceError(host.alias, f"{spec.binary} is not installed", _install_hint(spec))
    found = re.search(spec.version.pattern, (done.stdout + b"\n" + done.stderr).decode(errors="replace"))
    if not found:
        raise ServiceError(
            host.alias, f"{spec.name}: no version from {' '.join(spec.version.argv)}: {_output_text(done)}", _install_hint(spec)
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
        rendered: RenderedService,
        *,
        name: str,
        lease_s: float,
        launch: LaunchOptions = DEFAULT_LAUNCH,
    ) -> None:
        self.host, self.spec, self.rendered, self.name, self.lease_s = host, spec, rendered, name, lease_s
        self.launch = launch
        self._effective_config = b""
        self._leader: int | None = None
        self._files_written = False

    @property
    def address(self) -> str:
        """Address that the load goes to."""
        return self.rendered.context.address

    @property
    def port(self) -> int:
        """TCP port that the load goes to."""
        return self.rendered.context.port

    @property
    def scheme(self) -> str:
        """What its port speaks: http or https."""
        return self.rendered.scheme

    def check(self) -> None:
        """Put the files on the host, let the service check them, and keep its dump of what it understood.

        What is built is built first if need be. Raises ServiceError with the service's own words, or BuildError;
        nothing has been started then.
        """
        self._files_written = True
        if self.spec.build:
            build(self.host, self.spec)
        self.launch.check_limits(self.host)
        for name, data in self.rendered.files.items():
            self.host.put(f"{self.rendered.context.dir}/{name}", data)
        self._run_required("prepare", "could not be prepared")
        self._run_required("check", "refuses its configuration")
        self._effective_config = self._run_required("effective", "does not dump its configuration")

    def _run_required(self, name: str, failure: str) -> bytes:
        """Run a command of the service that must succeed, if it has it, and return what it prints."""
        argv = self.rendered.commands.get(name)
        if argv is None:
            return b""
        done = self.host.run(argv, timeout_s=CONTROL_TIMEOUT_S)
        if done.rc == 127:
            raise ServiceError(self.host.alias, f"{argv[0]} is not there", _install_hint(self.spec, argv[0]))
        if done.rc:
            raise ServiceError(self.host.alias, f"{self.spec.name} {failure} (exit code {done.rc}): {_output_text(done)}")
        return done.stdout

    def start(self) -> int:
        """Start a fresh process and return the id of its job's leader; it ends with its lease or with us."""
        self._leader = self.host.start(self.job)
        return self._leader

    @property
    def job(self) -> Job:
        """The job that its processes run in."""
        argv = self.launch.wrap(self.rendered.commands["start"])
        return Job(self.name, (argv,), self.lease_s, ends_with_session=True)

    def ready(self, client_host: Host) -> HttpResponse:
        """Wait until the service is there; ServiceError with the log's end when it died or is too late.

        `client_host` asks over HTTP; the status of an answer that is no HTTP is 0.
        """
        deadline, pause = time.monotonic() + self.spec.ready.timeout_s, POLL_PAUSES_S[0]
        while True:
            result = self._probe_ready(client_host)
            if result.response and self._is_ready(result):
                return result.response
            self._check_alive()
            if time.monotonic() > deadline:
                message = f"{result.target} is not as awaited within {self.spec.ready.timeout_s:g} s: {result.outcome}"
                raise ServiceError(self.host.alias, f"{message}\n{self._log_end()}")
            time.sleep(pause)
            pause = min(pause * 2, POLL_PAUSES_S[1])

    def _probe_ready(self, client_host: Host) -> ProbeResult:
        if self.spec.ready.tcp or (self.spec.ready.side and not self.rendered.contains_config_id):
            return probe_port(self.host, self.address, self.port)
        return run_probe(self.spec.ready, "ready", self.rendered, self.host, client_host)

    def _is_ready(self, result: ProbeResult) -> bool:
        """Tell whether an answer is the awaited one; of a user's own file any answer is."""
        if not (result.succeeded and result.response):
            return False
        if not result.response.status:
            return self.rendered.expected.get("ready", "") in result.text
        return result.response.status == self.spec.ready.status or not self.rendered.contains_config_id

    def state(self) -> JobState:
        """Tell how its job stands."""
        return self.host.state(self.name)

    @property
    def changes(self) -> dict[str, str]:
        """What it changes of its host beside its own folder, for the trial's record."""
        return {}

    def _check_alive(self) -> None:
        state = self.state()
        if not state.running:
            raise ServiceError(
                self.host.alias, f"{self.spec.name} ended with exit code {state.rc}: {self._log_end()}"
            )

    def prove(self, client_host: Host) -> Proof:
        """Ask the live server, from `client_host`, which configuration it runs, and look whether the process is ours."""
        live, evidence = self._probe_config(client_host)
        pids = self.pids()
        if live is not False and pids:
            evidence += f"; process {pids[0]} was started with it"
        elif not pids:
            live = False
            evidence += f"; no process {self.spec.process_name} of ours is running: {self._log_end()}"
        return Proof(live, evidence, pids)

    def _probe_config(self, client_host: Host) -> tuple[bool | None, str]:
        if self.spec.prove is None:
            return None, f"{self.spec.name} has no way to tell its configuration"
        if not self.rendered.contains_config_id:
            return (
                None,
                f"the study's own {self.spec.main} does not hold config_id, so nothing asks the process for it",
            )
        result = run_probe(self.spec.prove, "prove", self.rendered, self.host, client_host)
        if result.response is None:
            return False, f"{result.target}: {result.outcome}"
        expected = self.rendered.expected["prove"]
        if result.response.status == 200 and result.text.strip() == expected:
            return True, f"{result.target} answered {expected}, as rendered"
        if not result.response.status and result.succeeded and expected in result.text:
            return True, f"{result.target} printed {expected}, as rendered"
        response = (
            f"{result.response.status or 'with'} {result.text[:100].strip()!r}, not {expected!r}"
            if result.succeeded
            else result.outcome
        )
        return False, f"{result.target} answered {response}: another server, or an older configuration"

    @property
    def has_counters(self) -> bool:
        """Whether it is asked what it has counted."""
        return self.spec.counters is not None and self.rendered.expected["counters"] != "off"

    def counters(self, client_host: Host) -> dict[str, float]:
        """Return what the service has counted since its start, by name; empty when it does not count.

        Asking counts, too. A user's own file may leave the counters out; else ServiceError when they are not found.
        """
        probe = self.spec.counters
        if probe is None or not self.has_counters:
            return {}
        result = run_probe(probe, "counters", self.rendered, self.host, client_host)
        matches = {name: re.findall(pattern, result.text, re.MULTILINE) for name, pattern in probe.patterns.items()}
        counts = {name: sum(map(float, texts)) for name, texts in matches.items() if texts}
        if not counts and self.rendered.contains_config_id:
            raise ServiceError(self.host.alias, f"{result.target}: no counters of {self.spec.name}: {result.outcome}")
        return counts

    def pids(self) -> list[int]:
        """Return the ids of the service's own processes, oldest first; empty when it is not running."""
        if self._leader is None:
            return []
        argv = (str(self._leader), self.spec.process_name)
        done = self.host.script(PIDS_SCRIPT, argv, timeout_s=CONTROL_TIMEOUT_S)
        return sorted(int(word) for word in done.stdout.split())

    def effective_config(self) -> bytes:
        """Return the service's own dump of its configuration, as of `check`."""
        return self._effective_config

    def log(self) -> bytes:
        """Return the last bytes that the service wrote to stderr; empty when there is nothing."""
        return self._tail(self.log_file)

    @property
    def log_file(self) -> str:
        """The file on its host that it logs to."""
        return self._stream_file("stderr")

    def _stream_file(self, name: str) -> str:
        return f"{self.host.workdir}/jobs/{self.name}/{name}.1"

    def _tail(self, path: str) -> bytes:
        return self.host.run(["tail", "-c", str(LOG_TAIL_BYTES), path], timeout_s=CONTROL_TIMEOUT_S).stdout

    def _log_end(self) -> str:
        """Return the end of its log; some write it to stdout."""
        output = self.log().strip() or self._tail(self._stream_file("stdout")).strip()
        return output.decode(errors="replace")[-800:] or "it said nothing"

    def stop(self) -> None:
        """End the processes and remove the instance's folder; calling it again, or before `start`, is fine."""
        if not self._files_written:
            return
        try:
            self.host.stop(self.name, grace_s=self.spec.stop_grace_s)
        finally:
            self.host.remove(self.rendered.context.dir)
        self._leader, self._files_written = None, False


def _output_text(done: CommandResult) -> str:
    return (done.stderr + done.stdout).decode(errors="replace").strip()[-800:] or "it said nothing"


def _install_hint(spec: ServiceSpec, program: str | None = None) -> str:
    return f"apt-get install {spec.package if program in (None, spec.binary) else program}"
