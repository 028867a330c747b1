"""What loadbook changed of hosts and has to put back: the one way to ask a host to do so, and to hear what is left.

undo.sh writes down on the host whatever is changed there before it is changed (guard.sh: the kernel, system.sh: files
of the host's own servers), and puts it back: when the job that made the change ends, or later, when somebody asks.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from loadbook.core.errors import HostError
from loadbook.hosts.host import Host, Job
from loadbook.hosts.jobs import job_folder

SCRIPT_NAME = "undo.sh"
SCRIPT_PARTS = (SCRIPT_NAME, "guard.sh", "system.sh")
# a server is reloaded, its old processes are waited for, and another one may be at it
RESTORE_TIMEOUT_S = 180.0
END_TIMEOUT_S = 60.0
# waits until job $1 has said how its changes went, or ended, for $2 fiftieths of a second; prints what it said
OUTCOME_SCRIPT = """: loadbook asks whether the changes were made
tries=$2
while [ ! -e "$1/state" ] && [ ! -e "$1/rc" ] && [ "$tries" -gt 0 ]; do tries=$((tries - 1)); sleep 0.02; done
cat "$1/state" 2>/dev/null || echo "silent $(tail -c 300 "$1/stderr.1" 2>/dev/null)"
"""


class NotRestoredError(HostError):
    """A host is not as it was found; every reason is in the message, with what to do about it."""

    def __init__(self, host: str, failures: list[str]) -> None:
        hint = "see to what is said above, then: loadbook restore [--hosts FILE]"
        super().__init__(host, "\n".join(["is not as it was found:", *(f"  {failure}" for failure in failures)]), hint)


@cache
def rollback_script() -> str:
    """Return the whole script; what it is to do are its arguments."""
    texts = [files("loadbook.hosts").joinpath(name).read_text(encoding="utf-8") for name in SCRIPT_PARTS]
    return "".join([*texts, '"$@"\n'])


def rollback_job(name: str, args: tuple[str, ...], lease_s: float) -> Job:
    """Return the job that makes changes, and puts them back when it ends, whatever ends it."""
    return Job(name, (("/bin/sh", SCRIPT_NAME, *args),), lease_s, files={SCRIPT_NAME: rollback_script().encode()}, ends_with_session=True)


def wait_for_changes(host: Host, name: str, timeout_s: float) -> str | None:
    """Wait until the job has made its changes; return what it refused, None for nothing. The job still runs."""
    args = [job_folder(name), str(round(timeout_s * 50))]
    output = host.script(OUTCOME_SCRIPT, args, timeout_s=timeout_s + 5).stdout.decode(errors="replace").strip()
    status, _, reason = output.partition(" ")
    return None if status == "done" else reason or "the job on the host said nothing"


def restore_args(name: str = "", *, retry: bool = False) -> tuple[str, ...]:
    """Return the arguments with which the script puts things back."""
    return ("again" if retry else "restore", *([name] if name else []))


def restore(host: Host, name: str = "", *, retry: bool = False) -> list[str]:
    """Have a host put back what is left of those who are gone, only by the job `name` if given; say what it did.

    `again`: also what failed before, which is not tried by itself a second time.

    Raises
    ------
    NotRestoredError : something could not be put back, or was changed by somebody else meanwhile.
    """
    done = host.script(rollback_script(), restore_args(name, retry=retry), timeout_s=RESTORE_TIMEOUT_S)
    entries = [line.partition(" ") for line in done.stdout.decode(errors="replace").splitlines()]
    failures = [message for status, _, message in entries if status == "left"]
    if done.rc and not failures:
        failures = [f"what is left could not be looked at: {done.stderr.decode(errors='replace').strip()[-500:]}"]
    if failures:
        raise NotRestoredError(host.alias, failures)
    return [message for status, _, message in entries if status == "done"]


def end_job(host: Host, name: str) -> None:
    """End a job that made changes; NotRestoredError when something of them is left."""
    host.stop(name, grace_s=END_TIMEOUT_S)
    restore(host, name)
