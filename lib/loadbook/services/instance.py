"""One service instance on a host for one trial: put files, check, start, wait until ready, prove, stop.

Checks use HTTP, a command on the host, or a listening port. The code is the same for all server software. The process
is a Job of the host, so that it ends with its lease even if the controller dies.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from loadbook.core import clock
from loadbook.core.errors import HostError, LostError, NotRecordedError
from loadbook.core.text import host_port
from loadbook.hosts.host import CommandResult, Host, HttpResponse, Job, JobState
from loadbook.hosts.script import Script
from loadbook.hosts.shell import cpu_list
from loadbook.services.build import build
from loadbook.services.processes import PROCESSES_SCRIPT, ServiceProcess, count_workers, parse_processes
from loadbook.services.render import RenderedService
from loadbook.services.spec import ServiceCheck, ServiceSpec

CHECK_TIMEOUT_S = 2.0  # of a request to a service
CONTROL_TIMEOUT_S = 20.0
MAX_COMMAND_CHARS = 80
MAX_OUTPUT_CHARS = 800
MAX_ERRORS, MAX_ERROR_CHARS, MAX_WARNINGS = 3, 240, 5
MIN_POLL_PAUSE_S, MAX_POLL_PAUSE_S = 0.005, 0.1
# prints the local address (hex) of every listening TCP socket with port $1 (hex)
LISTENING_SCRIPT = Script(
    """: loadbook asks which addresses listen on a port
port=$1
cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | while read -r number local remote state rest; do
  [ "$state" = 0A ] && [ "${local##*:}" = "$port" ] && echo "${local%:*}"
done
:
""",
    purpose="until it listens",
    answer="00000000",
)


class ServiceError(HostError):
    """A service is missing, refuses its configuration, or does not start; the message has the service's output."""


class CheckResult(NamedTuple):
    """Result of a check; `response` is None if nothing answered, and has the status 0 if the check is not HTTP.

    `succeeded` is True for any HTTP response or exit code 0; `target` (URL, command) and `outcome` are for messages.
    """

    response: HttpResponse | None
    succeeded: bool
    target: str
    outcome: str

    @property
    def text(self) -> str:
        """The body of the HTTP response, or the output of the command, as text; "" without an answer."""
        return self.response.body.decode(errors="replace") if self.response else ""


def run_check(check: ServiceCheck, name: str, rendered: RenderedService, host: Host, client_host: Host) -> CheckResult:
    """Make one check: HTTP from `client_host` (from the service's `host` to its side port), or a command on `host`.

    `name`: ready, prove or counters, as in `rendered.commands`. Raises only LostError (connection to a host lost).
    """
    argv, path, place = rendered.commands.get(name), check.path or "/", rendered.context
    client, port, scheme = client_host, place.port, rendered.scheme
    if check.side:
        client, port, scheme = host, place.side_port, "http"
    target = f"{scheme}://{host_port(place.address, port)}{path}"
    if argv:
        command = " ".join(argv)
        target = f"`{command if len(command) <= MAX_COMMAND_CHARS else command[:MAX_COMMAND_CHARS] + ' ...'}`"
    try:
        if argv:
            done = host.run(argv, timeout_s=CHECK_TIMEOUT_S)
            outcome = f"exit code {done.rc}: {_output_text(done.stderr + done.stdout, 300)}"
            return CheckResult(HttpResponse(0, {}, done.stdout), done.rc == 0, target, outcome)
        answer = client.http_get(place.address, port, path, timeout_s=CHECK_TIMEOUT_S, scheme=scheme)
        return CheckResult(answer, True, target, f"answered {answer.status}")
    except LostError:
        raise
    except HostError as error:
        return CheckResult(None, False, target, error.message)


def polls(timeout_s: float) -> Iterator[None]:
    """Yield at once, and again after increasing pauses until `timeout_s` seconds are over; at least once."""
    deadline, pause_s = clock.monotonic() + timeout_s, MIN_POLL_PAUSE_S
    while True:
        yield
        if clock.monotonic() > deadline:
            return
        clock.sleep(pause_s)
        pause_s = min(pause_s * 2, MAX_POLL_PAUSE_S)


def check_port(host: Host, address: str, port: int) -> CheckResult:
    """Return a successful check if a process on `host` listens on the port at this address or at all addresses."""
    addresses = host.script(LISTENING_SCRIPT, [f"{port:04X}"], timeout_s=CONTROL_TIMEOUT_S).stdout.decode().split()
    if any(not entry.strip("0") or entry == _proc_net_address(address) for entry in addresses):
        return CheckResult(HttpResponse(0, {}, b""), True, host_port(address, port), "listens")
    return CheckResult(None, False, host_port(address, port), "nothing listens there")


def _proc_net_address(address: str) -> str:
    """Return an IP address in the format of /proc/net/tcp (4-byte words in machine order); host names unchanged."""
    try:
        packed = ipaddress.ip_address(address).packed
    except ValueError:
        return address
    step = 1 if sys.byteorder == "big" else -1
    return "".join(packed[offset : offset + 4][::step].hex() for offset in range(0, len(packed), 4)).upper()


_JOIN_CGROUP = 'read -r door <"$1" && echo $$ >"$door" && shift && exec "$@"'
_SET_NOFILE = 'ulimit -n "$1" && shift && exec "$@"'
# prints the hard limit of open files, and the CPUs that a process really gets if it requests the CPUs $1
LIMITS_SCRIPT = Script(
    """: loadbook asks what processes may have
ulimit -H -n
[ -z "$1" ] || exec taskset -c "$1" grep Cpus_allowed_list /proc/self/status
""",
    purpose="are these CPUs and open files allowed?",
    answer=lambda args: f"unlimited\nCpus_allowed_list: {args[0] if args else ''}",
)


@dataclass(frozen=True)
class LaunchOptions:
    """CPUs (numbers on the host; empty: not set) and limit of open files (None: not set) of a service's processes.

    `cgroup_file` is a file on the host with the path of the quota's cgroup.procs (`hosts.rollback`); "": no quota.
    """

    cpus: tuple[int, ...] = ()
    nofile: int | None = None
    cgroup_file: str = ""

    def wrap(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command preceded by others (taskset, ulimit in sh) that apply the options and then exec it."""
        limited = ("/bin/sh", "-c", _SET_NOFILE, "sh", str(self.nofile), *command) if self.nofile else command
        pinned = ("taskset", "-c", self.cpu_list, *limited) if self.cpus else limited
        return ("/bin/sh", "-c", _JOIN_CGROUP, "sh", self.cgroup_file, *pinned) if self.cgroup_file else pinned

    @property
    def cpu_list(self) -> str:
        """The CPUs in the format of taskset, such as 0,2."""
        return ",".join(map(str, sorted(set(self.cpus))))

    def check_limits(self, host: Host) -> None:
        """Check that the host allows the requested CPUs and limit; ServiceError contains the allowed ones."""
        if not self.cpus and self.nofile is None:
            return
        done = host.script(LIMITS_SCRIPT, [self.cpu_list], timeout_s=CONTROL_TIMEOUT_S)
        hard, _, mask = done.text.partition("\n")
        if self.nofile is not None and hard.strip() != "unlimited" and self.nofile > int(hard):
            problem = f"nofile = {self.nofile} is refused: the hard limit of open files is {hard.strip()}"
            hint = (
                "raise `nofile` for this user in /etc/security/limits.d on that host and log in anew, or ask for less"
            )
            raise ServiceError(host.alias, problem, hint)
        allowed = mask.partition(":")[2].strip()
        if self.cpus and cpu_list(allowed) != set(self.cpus):
            error = done.stderr.decode(errors="replace").strip()
            problem = f"CPUs {self.cpu_list} are refused: of these it may use {allowed or 'none of them'}"
            hint = "correct `cpus` in the study or in the hosts file; taskset comes with util-linux"
            raise ServiceError(host.alias, f"{problem}{': ' if error else ''}{error}", hint)


DEFAULT_LAUNCH = LaunchOptions()


LOG_TAIL_BYTES = 4000


class Proof(NamedTuple):
    """Whether the running service has this configuration (`live`; None if it cannot report it), and the evidence.

    `workers` is the number of its worker processes or threads; None if it is not known.
    """

    live: bool | None
    evidence: str
    pids: list[int]
    workers: int | None = None


def version(host: Host, spec: ServiceSpec) -> str:
    """Return the version of a service's binary, such as "1.22.1", and of a built one the digest of its sources.

    Builds the program if needed. Raises ServiceError with the package of a missing binary; BuildError.
    """
    program = build(host, spec).version if spec.build else ""
    if spec.version is None:
        return program
    done = host.run(spec.version.argv, timeout_s=CONTROL_TIMEOUT_S)
    if done.rc == 127:
        raise ServiceError(host.alias, f"{spec.binary} is not installed", _install_hint(spec))
    match = re.search(spec.version.pattern, (done.stdout + b"\n" + done.stderr).decode(errors="replace"))
    if not match:
        output = _output_text(done.stderr + done.stdout)
        problem = f"{spec.name}: no version from {' '.join(spec.version.argv)}: {output}"
        raise ServiceError(host.alias, problem, _install_hint(spec))
    return f"{match[1]} {program}" if program else match[1]


@dataclass(eq=False)
class Instance:
    """One rendered service on one host, for one trial.

    Parameters
    ----------
    name : name of its job and of its folder; unique on the host within the run.
    lease_s : seconds after which the host ends the processes.
    launch : CPUs and limit of open files of its processes.
    effective_config : the service's own dump of its configuration, made by `check`.
    check_warnings : warnings of its own check of the configuration, set by `check`.
    """

    host: Host
    spec: ServiceSpec
    rendered: RenderedService
    _: KW_ONLY
    name: str
    lease_s: float
    launch: LaunchOptions = DEFAULT_LAUNCH
    effective_config: bytes = field(default=b"", init=False)
    check_warnings: list[str] = field(default_factory=list, init=False)
    _leader: int | None = field(default=None, init=False)
    _files_written: bool = field(default=False, init=False)

    @property
    def address(self) -> str:
        """Address that the load is sent to."""
        return self.rendered.context.address

    @property
    def port(self) -> int:
        """TCP port that the load is sent to."""
        return self.rendered.context.port

    def check(self) -> None:
        """Put the files on the host, run the service's own check, and store its dump of the configuration.

        Builds the program first if needed; nothing is started. Raises ServiceError with the service's output, or
        BuildError.
        """
        self._files_written = True
        if self.spec.build:
            build(self.host, self.spec)
        self.launch.check_limits(self.host)
        for name, data in self.rendered.files.items():
            self.host.put(f"{self.rendered.context.dir}/{name}", data)
        self._run_required("prepare", "could not be prepared")
        checked = self._run_required("check", "refuses its configuration")
        self.check_warnings = self._warnings(checked.stdout + b"\n" + checked.stderr)
        self.effective_config = self._run_required("effective", "does not dump its configuration").stdout

    def read_warnings(self) -> list[str]:
        """Return the warnings of the service's check and of its command `warnings`, under its limit of open files.

        Call it after `check`. A study's own file may keep warnings out of the log and out of the check.
        """
        if argv := self.rendered.commands.get("warnings"):
            limited = LaunchOptions(nofile=self.launch.nofile).wrap(argv)
            with suppress(NotRecordedError):  # by earlier versions
                done = self.host.run(limited, timeout_s=CONTROL_TIMEOUT_S)
                self.check_warnings += self._warnings(done.stdout + b"\n" + done.stderr)
        self.check_warnings = list(dict.fromkeys(self.check_warnings))
        return self.check_warnings

    @property
    def backlog(self) -> int | None:
        """The longest accept queue that the main file asks for outside of comments; None if it asks for none."""
        if self.spec.backlog is None or self.spec.main is None:
            return None
        text = re.sub(r"#.*", "", self.rendered.files[self.spec.main].decode(errors="replace"))
        return max(map(int, re.findall(self.spec.backlog, text)), default=None)

    def _run_required(self, name: str, failure: str) -> CommandResult:
        """Run the command `name`, which must succeed; an empty result if the service does not define it."""
        argv = self.rendered.commands.get(name)
        if argv is None:
            return CommandResult(0, b"", b"")
        done = self.host.run(argv, timeout_s=CONTROL_TIMEOUT_S)
        if done.rc == 127:
            raise ServiceError(self.host.alias, f"{argv[0]} is not there", _install_hint(self.spec, argv[0]))
        if done.rc:
            raise self._error(f"{self.spec.name} {failure} (exit code {done.rc}): ", done.stderr + done.stdout)
        return done

    def _error(self, problem: str, output: bytes) -> ServiceError:
        """Return the error with the errors in the software's output, or an excerpt, and the hint of the service.

        Paths in the instance's own folder are shown as relative ones.
        """
        messages, text = self.spec.errors, output.decode(errors="replace")
        hint = messages.hint(text) if messages else None
        errors = messages.errors(text.replace(f"{self.rendered.context.dir}/", "")) if messages else []
        short = [error if len(error) <= MAX_ERROR_CHARS else f"{error[:MAX_ERROR_CHARS]} ..." for error in errors]
        return ServiceError(self.host.alias, problem + ("\n".join(short[:MAX_ERRORS]) or self._excerpt(output)), hint)

    def _excerpt(self, output: bytes) -> str:
        """Return at most MAX_OUTPUT_CHARS of the software's output: its errors first, or the end of the output."""
        if self.spec.errors is None or self.spec.errors.line is None:
            return _output_text(output)
        text = self.spec.errors.errors_first(output.decode(errors="replace").strip())
        return text[:MAX_OUTPUT_CHARS] or "it printed nothing"

    def start(self) -> int:
        """Start a fresh process and return the process id of its job's leader."""
        self._leader = self.host.start(self.job)
        return self._leader

    @property
    def job(self) -> Job:
        """The job that runs the service's start command under a lease."""
        argv = self.launch.wrap(self.rendered.commands["start"])
        return Job(self.name, (argv,), self.lease_s, ends_with_session=True)

    def ready(self, client_host: Host) -> HttpResponse:
        """Wait until the service is ready; ServiceError with the end of its log if it exits or takes too long.

        Returns the last response to the check. HTTP requests are sent from `client_host`; other checks have status 0.
        """
        check, own_file = self.spec.ready, not self.rendered.contains_config_id
        for _ in polls(check.timeout_s):
            if check.tcp or (check.side and own_file):
                result = check_port(self.host, self.address, self.port)
            else:
                result = run_check(check, "ready", self.rendered, self.host, client_host)
            if result.response and result.succeeded:
                if result.response.status:  # HTTP; with a user's own configuration file any status is accepted
                    is_ready = own_file or result.response.status == check.status
                else:
                    is_ready = self.rendered.expected.get("ready", "") in result.text
                if is_ready:
                    return result.response
            state = self.state()
            if not state.running:
                problem = f"{self.spec.name} ended with exit code {state.rc}: {self._log_end()}"
                raise ServiceError(self.host.alias, problem)
        problem = f"{result.target} is not as awaited within {check.timeout_s:g} s: {result.outcome}"
        raise ServiceError(self.host.alias, f"{problem}\n{self._log_end()}")

    def state(self) -> JobState:
        """Return the state of the service's job."""
        return self.host.state(self.name)

    @property
    def changes(self) -> dict[str, str]:
        """Changes of the host outside the instance's folder, for the trial record; none for a managed service."""
        return {}

    def prove(self, client_host: Host) -> Proof:
        """Read the configuration id from the running server, via `client_host`, and check that its process is ours."""
        live, evidence = self._check_config(client_host)
        processes = self._processes()
        pids = [process.pid for process in processes]
        if live is not False and pids:
            evidence += f"; process {pids[0]} was started with it"
        elif not pids:
            live = False
            evidence += f"; no process {self.spec.process_name} of ours is running: {self._log_end()}"
        return Proof(live, evidence, pids, count_workers(self.spec.workers, processes))

    def _check_config(self, client_host: Host) -> tuple[bool | None, str]:
        if self.spec.prove is None:
            return None, f"{self.spec.name} has no way to tell its configuration"
        if not self.rendered.contains_config_id:
            reason = f"the study's own {self.spec.main} does not hold config_id, so nothing asks the process for it"
            return None, reason
        result = run_check(self.spec.prove, "prove", self.rendered, self.host, client_host)
        if result.response is None:
            return False, f"{result.target}: {result.outcome}"
        expected = self.rendered.expected["prove"]
        if result.response.status == 200 and result.text.strip() == expected:
            return True, f"{result.target} answered {expected}, as rendered"
        if not result.response.status and result.succeeded and expected in result.text:
            return True, f"{result.target} printed {expected}, as rendered"
        response = result.outcome
        if result.succeeded:
            response = f"{result.response.status or 'with'} {result.text[:100].strip()!r}, not {expected!r}"
        return False, f"{result.target} answered {response}: another server, or an older configuration"

    def counters(self, client_host: Host) -> dict[str, float]:
        """Return name -> value of the service's counters since its start; empty if it has no counters.

        Reading them is itself counted as a request. ServiceError if they are missing, except with a user's own file.
        """
        check = self.spec.counters
        if check is None or self.rendered.expected["counters"] == "off":
            return {}
        result = run_check(check, "counters", self.rendered, self.host, client_host)
        matches = {name: re.findall(pattern, result.text, re.MULTILINE) for name, pattern in check.patterns.items()}
        counts = {name: sum(map(float, texts)) for name, texts in matches.items() if texts}
        if not counts and self.rendered.contains_config_id and self.host.live:
            raise ServiceError(self.host.alias, f"{result.target}: no counters of {self.spec.name}: {result.outcome}")
        return counts

    def session_leader(self) -> int | None:
        """Return the id of the process that leads the session or group of its processes; None unless started."""
        return self._leader

    def pids(self) -> list[int]:
        """Return the ids of the service's own processes, oldest first; empty if it is not running."""
        return [process.pid for process in self._processes()]

    def _processes(self) -> list[ServiceProcess]:
        if self._leader is None:
            return []
        argv = (str(self._leader), self.spec.process_name)
        done = self.host.script(PROCESSES_SCRIPT, argv, timeout_s=CONTROL_TIMEOUT_S)
        return parse_processes(done.text)

    def log(self) -> bytes:
        """Return the last bytes of the service's log: what it wrote to stderr, or to stdout (`errors.stream`)."""
        if self.spec.errors and self.spec.errors.stream == "stdout":
            with suppress(NotRecordedError):  # by earlier versions
                return self._tail(self._stdout_file)
        return self._tail(self.log_file)

    def log_warnings(self, log: bytes) -> list[str]:
        """Return at most MAX_WARNINGS warnings of its check and its log, each once; `log` is the end of its log.

        Only those of the check for a host's own server (system mode), whose log also has lines of other days.
        """
        if self.spec.errors is None or self.spec.errors.warnings is None or self.spec.tree:
            return self.check_warnings
        if self.host.live and len(log) >= LOG_TAIL_BYTES:  # its start, too: the lines on its configuration
            log = self._read(["head", "-c", str(LOG_TAIL_BYTES), self.log_file]) + b"\n" + log
        return list(dict.fromkeys([*self.check_warnings, *self._warnings(log)]))[:MAX_WARNINGS]

    def _warnings(self, output: bytes) -> list[str]:
        """Return the warnings in an output of the software, with relative paths."""
        text = output.decode(errors="replace").replace(f"{self.rendered.context.dir}/", "")
        lines = self.spec.errors.log_warnings(text) if self.spec.errors else []
        return [line[:MAX_ERROR_CHARS] for line in lines[:MAX_WARNINGS]]

    @property
    def log_file(self) -> str:
        """Path of the service's log file (its stderr) on the host."""
        return f"{self.host.workdir}/jobs/{self.name}/stderr.1"

    @property
    def _stdout_file(self) -> str:
        return f"{self.host.workdir}/jobs/{self.name}/stdout.1"

    def _tail(self, path: str) -> bytes:
        return self._read(["tail", "-c", str(LOG_TAIL_BYTES), path])

    def _read(self, argv: list[str]) -> bytes:
        return self.host.run(argv, timeout_s=CONTROL_TIMEOUT_S).stdout

    def _log_end(self) -> str:
        """Return an excerpt of the log's end: of stderr, or of stdout if that is empty."""
        return self._excerpt(self.log().strip() or self._tail(self._stdout_file))

    def stop(self) -> None:
        """End the processes and remove the instance's folder; may be called again, or before `start`."""
        if not self._files_written:
            return
        try:
            self._end_job()
        finally:
            self.host.remove(self.rendered.context.dir)
        self._leader, self._files_written = None, False

    def _end_job(self) -> None:
        self.host.stop(self.name, grace_s=self.spec.stop_grace_s)


def _output_text(output: bytes, max_chars: int = MAX_OUTPUT_CHARS) -> str:
    return output.decode(errors="replace").strip()[-max_chars:] or "it printed nothing"


def _install_hint(spec: ServiceSpec, program: str | None = None) -> str:
    return f"apt-get install {spec.package if program in (None, spec.binary) else program}"
