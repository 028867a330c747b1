"""System mode of a service: the host's own server, with its files replaced for one trial and restored afterwards.

The script hosts/system.sh makes the changes on the host; the running configuration is proven as for other instances.
"""

from __future__ import annotations

import hashlib
import shlex

from loadbook.hosts import rollback
from loadbook.hosts.host import Host, HttpResponse, Job
from loadbook.services.instance import CONTROL_TIMEOUT_S, Instance, Proof, ServiceError, polls
from loadbook.services.spec import SystemServer

STAGE_TIMEOUT_S = 60.0
SYSTEM_START_TIMEOUT_S = 90.0  # long, since another job may still be restoring files
LIVE_TIMEOUT_S = 5.0


class SystemInstance(Instance):
    """The host's own server with one rendered configuration, for one trial.

    It has the methods of `Instance`: `check` checks a copy of the server's configuration tree with the new files in it,
    `start` saves the files, replaces them and reloads the server, `prove` also waits until the old processes have
    ended, `stop` restores the files. If the controller dies, the host restores them by itself.
    """

    _old_processes = ""
    _started = _live = False

    @property
    def system(self) -> SystemServer:
        """The [system] table of service.toml."""
        assert self.spec.system is not None
        return self.spec.system

    @property
    def new_files(self) -> dict[str, bytes]:
        """Absolute path -> content of the files that `check` writes: the new files, and settings for system.sh."""
        folder, server = self.rendered.context.dir, self.system
        check = shlex.join(self.rendered.commands["check"])
        plan = {
            "tree": server.tree,
            "process": self.spec.process_name,
            "pid_file": server.pid_file,
            "unit": server.unit or "",
            "reload": server.reload,
            "stop": server.stop,
            "start": shlex.join(self.rendered.commands["start"]),
            "check": check,
            "check_staged": check.replace(server.tree, f"{folder}/stage"),
            "limit_s": str(round(server.drain_s)),
        }
        files = {f"{folder}/new/{name}": data for name, data in self.rendered.files.items()}
        text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in plan.items())
        return {**files, f"{folder}/plan": text.encode()}

    @property
    def stage_args(self) -> tuple[str, ...]:
        """Arguments of the rollback script (undo.sh) that check a copy of the configuration tree."""
        return ("stage", self.rendered.context.dir)

    def check(self) -> None:
        """Check a copy of the server's tree with the new files in it; ServiceError with the server's message."""
        self._files_written = True
        for path, data in self.new_files.items():
            self.host.put(path, data, 0o600)
        command = " ".join(self.rendered.commands["check"])
        purpose = f"copies {self.system.tree}, puts the new files into the copy: {command}"
        script = rollback.rollback_script().used_for(purpose)
        done = self.host.script(script, self.stage_args, timeout_s=STAGE_TIMEOUT_S)
        if done.rc:
            problem = f"{self.spec.name} refuses its configuration (exit code {done.rc}), nothing was replaced: "
            raise self._error(problem, done.stderr + done.stdout)
        self.check_warnings = self._warnings(done.stdout + b"\n" + done.stderr)
        self.effective_config = b""

    @property
    def job(self) -> Job:
        """The job that replaces the files, and restores the original ones when it ends."""
        return rollback.rollback_job(self.name, ("system", self.rendered.context.dir), self.lease_s)

    def start(self) -> int:
        """Replace the files and reload the server; if that fails, restore the files and raise ServiceError."""
        self._started = True
        leader = self.host.start(self.job)
        refused = rollback.wait_for_changes(self.host, self.name, SYSTEM_START_TIMEOUT_S)
        if refused is not None:
            rollback.end_job(self.host, self.name)
            raise ServiceError(self.host.alias, refused)
        self._leader = leader
        self.effective_config = self._run_required("effective", "does not dump its configuration").stdout
        return leader

    def ready(self, client_host: Host) -> HttpResponse:
        """Wait until the server reports this configuration, or LIVE_TIMEOUT_S is over; `prove` returns the result.

        With a user's own file without the id, wait for any response.
        """
        if not self.rendered.contains_config_id or self.spec.prove is None:
            return super().ready(client_host)
        for _ in polls(LIVE_TIMEOUT_S):
            self._live = self._check_config(client_host)[0] is True
            if self._live:
                break
        return HttpResponse(0, {}, b"")

    def prove(self, client_host: Host) -> Proof:
        """Read the configuration id from the running server, and check that all old processes have ended."""
        live, evidence = self._check_config(client_host)
        if live is False and not self._live:
            return Proof(False, f"{evidence}{self._log_suffix()}", self.pids())
        settled = self._wait_for_old_processes(client_host)
        (live, evidence), pids = self._check_config(client_host), self.pids()
        if settled == "gone" or not pids:
            return Proof(False, f"{evidence}; it ended: {self._log_end()}", pids)
        if settled == "unchanged":
            problem = f"its processes are those of before: it was not reloaded{self._log_suffix()}"
            return Proof(False, f"{evidence}; {problem}", pids)
        fate = "no process of before is left"
        if settled.startswith("restarted"):
            old_pids = settled.partition(" ")[2]
            fate = f"processes of before ({old_pids}) still served {self.system.drain_s:g} s later: it was started anew"
        return Proof(live, f"{evidence}; {fate}", pids)

    def _wait_for_old_processes(self, client_host: Host) -> str:
        """Wait, at the first call only, until the old processes have ended; return a text on how they ended."""
        if not self._old_processes:
            args = ("settle", self.rendered.context.dir, self.name)
            limit_s = rollback.END_TIMEOUT_S + 2 * self.system.drain_s
            done = self.host.script(rollback.rollback_script(), args, timeout_s=limit_s, check=True)
            self._old_processes = done.text.strip() or "gone"
            self.ready(client_host)
        return self._old_processes

    def _log_suffix(self) -> str:
        """Return "; <log file> ends with: ...", to be appended to a message; "" if the log is empty."""
        log_end = self.log().decode(errors="replace").strip()[-400:]
        return f"; {self.system.log} ends with: {log_end}" if log_end else ""

    def session_leader(self) -> int | None:
        """Return the server's main process, which leads its session; None if it is not running."""
        return next(iter(self.pids()), None)

    def pids(self) -> list[int]:
        """Return the ids of the server's processes, the main one first."""
        args = ("server", self.rendered.context.dir)
        done = self.host.script(rollback.rollback_script(), args, timeout_s=CONTROL_TIMEOUT_S)
        return [int(word) for word in done.stdout.split()]

    @property
    def changes(self) -> dict[str, str]:
        """The replaced files with the sha256 of their new content, and whether the server was reloaded or restarted."""
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(self.rendered.files.items())}
        files = {f"{self.spec.tree}/{name}": f"sha256 {digest}" for name, digest in digests.items()}
        restarted = self._old_processes.startswith("restarted") or self.system.reload == "restart"
        return {**files, self.spec.name: "restarted" if restarted else "reloaded"}

    def log(self) -> bytes:
        """Return the last bytes of the server's own log; empty if it is not readable."""
        return super().log() if self.log_file else b""

    @property
    def log_file(self) -> str:
        """Path of the server's own log on its host; "" if it is not known."""
        return self.system.log or ""

    def _log_end(self) -> str:  # not by its errors, which can be of another day
        return self.log().decode(errors="replace").strip()[-800:] or "its log says nothing"

    def stop(self) -> None:
        """Restore the original files; repeated calls, or a call before `start`, do nothing.

        Raises
        ------
        NotRestoredError : a file could not be restored, or somebody else has edited it.
        """
        super().stop()

    def _end_job(self) -> None:
        if self._started:
            rollback.end_job(self.host, self.name)
            self._started = False
