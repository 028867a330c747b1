"""How a service's processes are started: on which CPUs of the host, with how many open files."""

from __future__ import annotations

from dataclasses import dataclass

from loadbook.hosts.host import Host
from loadbook.hosts.shell import cpu_list
from loadbook.services.asking import ServiceError

LIMITS_TIMEOUT_S = 20.0
_JOIN_CGROUP = 'read -r door <"$1" && echo $$ >"$door" && shift && exec "$@"'
_SET_NOFILE = 'ulimit -n "$1" && shift && exec "$@"'
# prints the hard limit of open files, then the CPUs that a process may use which asks for the CPUs $1
LIMITS_SCRIPT = """: loadbook asks what processes may have
ulimit -H -n
[ -z "$1" ] || exec taskset -c "$1" grep Cpus_allowed_list /proc/self/status
"""


@dataclass(frozen=True)
class LaunchOptions:
    """CPUs (their numbers on the host) and limit of open files of every process; empty and None: as logged in.

    `cgroup_file` is the file on the host that names the one which takes a process into its quota (`hosts.guard`); "": none.
    """

    cpus: tuple[int, ...] = ()
    nofile: int | None = None
    cgroup_file: str = ""

    def wrap(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command that starts `command` so, in the same process."""
        limited = ("/bin/sh", "-c", _SET_NOFILE, "sh", str(self.nofile), *command) if self.nofile else command
        pinned = ("taskset", "-c", self.cpu_list, *limited) if self.cpus else limited
        return ("/bin/sh", "-c", _JOIN_CGROUP, "sh", self.cgroup_file, *pinned) if self.cgroup_file else pinned

    @property
    def cpu_list(self) -> str:
        """The CPUs as taskset reads them, such as 0,2."""
        return ",".join(map(str, sorted(set(self.cpus))))

    def check_limits(self, host: Host) -> None:
        """See that the host lets a process have all that is asked for; ServiceError says what it allows instead."""
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
