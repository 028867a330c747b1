"""One service instance on a host for one trial: put files, check, start, wait until ready, prove, stop.

Probes use HTTP, a command on the host, or a listening port. Nothing here is specific to a server software. The process
is a Job of the host, so its lease ends it even when the controller dies.
"""

from __future__ import annotations

import ipaddress
import re
import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

from loadbook.core.errors import HostError, LostError
from loadbook.hosts.host import CommandResult, Host, HttpResponse, Job, JobState
from loadbook.hosts.shell import cpu_list
from loadbook.services.build import build
from loadbook.services.render import RenderedService
from loadbook.services.spec import Probe, ServiceSpec

PROBE_TIMEOUT_S = 2.0
MAX_COMMAND_CHARS = 80
POLL_PAUSES_S = (0.005, 0.1)
# prints the local address of every listening TCP socket with port $1 (hex)
LISTENING_SCRIPT = """: loadbook asks which addresses listen on a port
port=$1
cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | while read -r number local remote state rest; do
  [ "$state" = 0A ] && [ "${local##*:}" = "$port" ] && echo "${local%:*}"
done
:
"""


class ServiceError(HostError):
    """A service that is missing, refuses its configuration, or does not start; the message has its own output."""


class ProbeResult(NamedTuple):
    """Result of a probe: `response` is None without an answer, its status 0 if not HTTP; `succeeded`: exit code 0.

    `target` (URL or command) and `outcome` are for messages.
    """

    response: HttpResponse | None
    succeeded: bool
    target: str
    outcome: str

    @property
    def text(self) -> str:
        """The body, or the output of the command, as text."""
        return self.response.body.decode(errors="replace") if self.response else ""


def run_probe(probe: Probe, name: str, rendered: RenderedService, host: Host, client_host: Host) -> ProbeResult:
    """Send one probe: the path from `client_host` (or the side port from the service's `host`), the command on `host`.

    `name` is that of the command in `rendered.commands`. Raises only LostError: the connection to the host is lost.
    """
    if name in rendered.commands:
        return _run_command(host, rendered.commands[name])
    context, path = rendered.context, probe.path or "/"
    if probe.side:
        return probe_http(host, context.address, context.side_port, path)
    return probe_http(client_host, context.address, context.port, path, rendered.scheme)


def probe_http(client_host: Host, address: str, port: int, path: str, scheme: str = "http") -> ProbeResult:
    """Send one HTTP request to a web server."""
    target = f"{scheme}://{address}:{port}{path}"
    try:
        answer = client_host.http_get(address, port, path, timeout_s=PROBE_TIMEOUT_S, scheme=scheme)
    except LostError:
        raise
    except HostError as error:
        return ProbeResult(None, False, target, error.message)
    return ProbeResult(answer, True, target, f"answered {answer.status}")


def _run_command(host: Host, argv: tuple[str, ...]) -> ProbeResult:
    command = " ".join(argv)
    target = f"`{command if len(command) <= MAX_COMMAND_CHARS else command[:MAX_COMMAND_CHARS] + ' ...'}`"
    try:
        done = host.run(argv, timeout_s=PROBE_TIMEOUT_S)
    except LostError:
        raise
    except HostError as error:
        return ProbeResult(None, False, target, error.message)
    output = (done.stderr + done.stdout).decode(errors="replace").strip()[-300:]
    return ProbeResult(
        HttpResponse(0, {}, done.stdout), done.rc == 0, target, f"exit code {done.rc}: {output or 'it printed nothing'}"
    )


def wait_for_http(
    client_host: Host, address: str, port: int, path: str = "/", *, status: int = 200, timeout_s: float = 10.0
) -> HttpResponse:
    """Wait until a web server answers `path` with `status` to `client_host`; ServiceError after `timeout_s`."""
    deadline, pause = time.monotonic() + timeout_s, POLL_PAUSES_S[0]
    while True:
        result = probe_http(client_host, address, port, path)
        if result.response and result.response.status == status:
            return result.response
        if time.monotonic() > deadline:
            raise ServiceError(
                client_host.alias, f"{result.target} did not answer {status} within {timeout_s:g} s: {result.outcome}"
            )
        time.sleep(pause)
        pause = min(pause * 2, POLL_PAUSES_S[1])


def probe_port(host: Host, address: str, port: int) -> ProbeResult:
    """Return whether a process on `host` listens on an address and port, or on all addresses."""
    done = host.script(LISTENING_SCRIPT, [f"{port:04X}"], timeout_s=PROBE_TIMEOUT_S)
    addresses = done.stdout.decode().split()
    is_listening = any(not entry.strip("0") or entry == _proc_net_address(address) for entry in addresses)
    target = f"{address}:{port}"
    return ProbeResult(
        HttpResponse(0, {}, b"") if is_listening else None,
        is_listening,
        target,
        "listens" if is_listening else "nothing listens there",
    )


def _proc_net_address(address: str) -> str:
    """Return an address in the notation of /proc/net/tcp: 4-byte words in machine order; host names unchanged."""
    try:
        packed = ipaddress.ip_address(address).packed
    except ValueError:
        return address
    step = 1 if sys.byteorder == "big" else -1
    return "".join(packed[offset : offset + 4][::step].hex() for offset in range(0, len(packed), 4)).upper()


LIMITS_TIMEOUT_S = 20.0
_JOIN_CGROUP = 'read -r door <"$1" && echo $$ >"$door" && shift && exec "$@"'
_SET_NOFILE = 'ulimit -n "$1" && shift && exec "$@"'
# prints the hard limit of open files, then the CPUs that a process gets if it requests the CPUs $1
LIMITS_SCRIPT = """: loadbook asks what processes may have
ulimit -H -n
[ -z "$1" ] || exec taskset -c "$1" grep Cpus_allowed_list /proc/self/status
"""


@dataclass(frozen=True)
class LaunchOptions:
    """CPUs (numbers on the host) and open file limit of every process; empty and None: those of the login.

    `cgroup_file` is a file on the host with the path of the cgroup.procs of its quota (`hosts.rollback`); "": none.
    """

    cpus: tuple[int, ...] = ()
    nofile: int | None = None
    cgroup_file: str = ""

    def wrap(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command with the launch options applied, in the same process."""
        limited = ("/bin/sh", "-c", _SET_NOFILE, "sh", str(self.nofile), *command) if self.nofile else command
        pinned = ("taskset", "-c", self.cpu_list, *limited) if self.cpus else limited
        return ("/bin/sh", "-c", _JOIN_CGROUP, "sh", self.cgroup_file, *pinned) if self.cgroup_file else pinned

    @property
    def cpu_list(self) -> str:
        """The CPUs as taskset reads them, such as 0,2."""
        return ",".join(map(str, sorted(set(self.cpus))))

    def check_limits(self, host: Host) -> None:
        """Check that the host allows the requested limits; ServiceError names the allowed ones."""
        if not self.cpus and self.nofile is None:
            return
        done = host.script(LIMITS_SCRIPT, [self.cpu_list], timeout_s=LIMITS_TIMEOUT_S)
        hard, _, mask = done.stdout.decode(errors="replace").partition("\n")
        if self.nofile is not None and hard.strip() != "unlimited" and self.nofile > int(hard):
            raise ServiceError(
                host.alias,
                f"nofile = {self.nofile} is refused: the hard limit of open files is {hard.strip()}",
                "raise `nofile` for this user in /etc/security/limits.d on that host and log in anew, or ask for less",
            )
        if self.cpus and cpu_list(mask.partition(":")[2]) != set(self.cpus):
            error = done.stderr.decode(errors="replace").strip()
            allowed = mask.partition(":")[2].strip() or "none of them"
            raise ServiceError(
                host.alias,
                f"CPUs {self.cpu_list} are refused: of these it may use {allowed}{': ' if error else ''}{error}",
                "correct `cpus` in the study or in the hosts file; taskset comes with util-linux",
            )


DEFAULT_LAUNCH = LaunchOptions()


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
    """Result of the configuration check: `live` is None if the service cannot tell; `evidence` is a sentence."""

    live: bool | None
    evidence: str
    pids: list[int]


def version(host: Host, spec: ServiceSpec) -> str:
    """Return the version of the service's binary on a host, and the digest of a built program.

    Builds the program if needed. ServiceError names the package of a missing binary, BuildError what building needs.
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
            host.alias,
            f"{spec.name}: no version from {' '.join(spec.version.argv)}: {_output_text(done)}",
            _install_hint(spec),
        )
    return f"{found[1]} {program}" if program else found[1]


class Instance:
    """One rendered service on one host, for one trial.

    Parameters
    ----------
    name : of the job and of the folder; unique on the host within the run.
    lease_s : seconds after which the host ends the processes.
    launch : CPUs and limit of open files of its processes.
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
        """Protocol of its port: http or https."""
        return self.rendered.scheme

    def check(self) -> None:
        """Put the files on the host, run the service's own check, and keep its dump of the configuration.

        Builds the program first if needed. Raises ServiceError with the service's own output, or BuildError, before
        anything is started.
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
        """Run a command of the service that must succeed, if it defines it, and return its output."""
        argv = self.rendered.commands.get(name)
        if argv is None:
            return b""
        done = self.host.run(argv, timeout_s=CONTROL_TIMEOUT_S)
        if done.rc == 127:
            raise ServiceError(self.host.alias, f"{argv[0]} is not there", _install_hint(self.spec, argv[0]))
        if done.rc:
            raise ServiceError(
                self.host.alias, f"{self.spec.name} {failure} (exit code {done.rc}): {_output_text(done)}"
            )
        return done.stdout

    def start(self) -> int:
        """Start a fresh process and return the process id of its job's leader."""
        self._leader = self.host.start(self.job)
        return self._leader

    @property
    def job(self) -> Job:
        """The job of its processes."""
        argv = self.launch.wrap(self.rendered.commands["start"])
        return Job(self.name, (argv,), self.lease_s, ends_with_session=True)

    def ready(self, client_host: Host) -> HttpResponse:
        """Wait until the service is ready; ServiceError with the end of the log when it exits or takes too long.

        HTTP requests come from `client_host`; the status of other responses is 0.
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
        """Return whether a response is the expected one; for a user's own file any response is."""
        if not (result.succeeded and result.response):
            return False
        if not result.response.status:
            return self.rendered.expected.get("ready", "") in result.text
        return result.response.status == self.spec.ready.status or not self.rendered.contains_config_id

    def state(self) -> JobState:
        """Return the state of its job."""
        return self.host.state(self.name)

    @property
    def changes(self) -> dict[str, str]:
        """Changes of the host outside its own folder, for the trial record."""
        return {}

    def _check_alive(self) -> None:
        state = self.state()
        if not state.running:
            raise ServiceError(self.host.alias, f"{self.spec.name} ended with exit code {state.rc}: {self._log_end()}")

    def prove(self, client_host: Host) -> Proof:
        """Ask the live server for its configuration id, from `client_host`, and check that the process is ours."""
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
        """Whether the service has counters."""
        return self.spec.counters is not None and self.rendered.expected["counters"] != "off"

    def counters(self, client_host: Host) -> dict[str, float]:
        """Return the service's counters since its start, by name; empty if it has none.

        Reading them counts, too. ServiceError if they are missing, except with a user's own file.
        """
        probe = self.spec.counters
        if probe is None or not self.has_counters:
            return {}
        result = run_probe(probe, "counters", self.rendered, self.host, client_host)
        matches = {name: re.findall(pattern, result.text, re.MULTILINE) for name, pattern in probe.patterns.items()}
        counts = {name: sum(map(float, texts)) for name, texts in matches.items() if texts}
        if not counts and self.rendered.contains_config_id and self.host.live:
            raise ServiceError(self.host.alias, f"{result.target}: no counters of {self.spec.name}: {result.outcome}")
        return counts

    def pids(self) -> list[int]:
        """Return the ids of the service's own processes, oldest first; empty if it is not running."""
        if self._leader is None:
            return []
        argv = (str(self._leader), self.spec.process_name)
        done = self.host.script(PIDS_SCRIPT, argv, timeout_s=CONTROL_TIMEOUT_S)
        return sorted(int(word) for word in done.stdout.split())

    def effective_config(self) -> bytes:
        """Return the service's own dump of its configuration, made by `check`."""
        return self._effective_config

    def log(self) -> bytes:
        """Return the last bytes that the service wrote to stderr."""
        return self._tail(self.log_file)

    @property
    def log_file(self) -> str:
        """The log file of the service on its host."""
        return self._stream_file("stderr")

    def _stream_file(self, name: str) -> str:
        return f"{self.host.workdir}/jobs/{self.name}/{name}.1"

    def _tail(self, path: str) -> bytes:
        return self.host.run(["tail", "-c", str(LOG_TAIL_BYTES), path], timeout_s=CONTROL_TIMEOUT_S).stdout

    def _log_end(self) -> str:
        """Return the end of the log; some services write it to stdout."""
        output = self.log().strip() or self._tail(self._stream_file("stdout")).strip()
        return output.decode(errors="replace")[-800:] or "it printed nothing"

    def stop(self) -> None:
        """End the processes and remove the instance's folder; may be called again, or before `start`."""
        if not self._files_written:
            return
        try:
            self.host.stop(self.name, grace_s=self.spec.stop_grace_s)
        finally:
            self.host.remove(self.rendered.context.dir)
        self._leader, self._files_written = None, False


def _output_text(done: CommandResult) -> str:
    return (done.stderr + done.stdout).decode(errors="replace").strip()[-800:] or "it printed nothing"


def _install_hint(spec: ServiceSpec, program: str | None = None) -> str:
    return f"apt-get install {spec.package if program in (None, spec.binary) else program}"
