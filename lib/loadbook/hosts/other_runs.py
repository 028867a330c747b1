r"""Other runs of loadbook on a host's machine, found in its list of processes.

Every run has a watcher (`job.sh watch`) on each of its hosts, whose arguments name the run. No file is shared between
users: nobody can hold a lock that stops the runs of others, or write what they trust. User and age come from the
kernel. The arguments are the user's own words; they are only shown. A run in another container or hidden by the mount
option `hidepid` is not seen; its CPU time is.
"""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import NamedTuple

from loadbook.core.units import format_duration
from loadbook.hosts.jobs import own_process_identity

OTHER_RUN = "other_run"
MAX_WORD = 200
# a part of scripts for a host: prints, separated by tabs, OTHER_RUN, user, age (s) and arguments of each watcher
OTHER_RUNS_SCRIPT = r"""
read -r uptime rest </proc/uptime
grep -slF /bin/job- /proc/[0-9]*/cmdline | head -n 40 | while read -r file; do
  words=$(tr '\n\t\0' '??\t' 2>/dev/null <"$file" | head -c 2000)
  case $words in *"/bin/job-"*".sh	watch	"*) ;; *) continue ;; esac
  process=${file%/cmdline}
  { read -r line <"$process/stat"; } 2>/dev/null || continue
  set -f
  set -- ${line##*) }
  printf 'other_run\t%s\t%s\t%s\n' "$(stat -c %U "$process" 2>/dev/null)" "$((${uptime%%.*} - ${20} / 100))" "$words"
done
"""
# of a watcher's arguments (lock.sh, `take`)
_LOCK, _ID, _CONTROLLER, _PID, _PROCESS, _STUDY, _RUN = range(5, 12)


class OtherRun(NamedTuple):
    """Another run on a machine: the login `user` there, seconds since its start, and the words of its watcher.

    `id` is the id of its lock owner (`jobs.LockOwner`), `controller` the user and machine that started it, `pid` its
    process there, `lab` the folder of its lab or "".
    """

    user: str
    age_s: float
    id: str
    controller: str
    pid: int
    study: str
    run: str
    lab: str

    @property
    def description(self) -> str:
        """Return a text with the run, its user, its folder, and since when it has used the machine."""
        lab = f", lab {self.lab}" if self.lab else ""
        origin = f"user {self.user}, process {self.pid} of {self.controller}{lab}"
        return f"run {self.run} of {self.study} ({origin}, for {format_duration(max(0.0, self.age_s))})"


def parse_other_runs(output: str) -> list[OtherRun]:
    """Return the runs in the output of a script with OTHER_RUNS_SCRIPT, each once, without those of this process."""
    runs: dict[str, OtherRun] = {}
    for line in output.split("\n"):
        name, *fields = map(_printable, line.split("\t"))
        if name != OTHER_RUN or len(fields) <= 2 + _RUN:
            continue
        user, age, *words = fields
        if not words[_PID].isdecimal() or not age.lstrip("-").isdecimal():
            continue
        pid = int(words[_PID])
        if (pid, words[_PROCESS]) == (os.getpid(), own_process_identity()):
            continue
        lock = PurePosixPath(words[_LOCK])
        lab = str(lock.parents[2]) if lock.name == "host.lock" and len(lock.parents) > 2 else ""
        run = OtherRun(user, float(age), words[_ID], words[_CONTROLLER], pid, words[_STUDY], words[_RUN], lab)
        runs.setdefault(run.id, run)
    return list(runs.values())


def without_other_runs(output: str) -> str:
    """Return the output of a script without the lines of OTHER_RUNS_SCRIPT."""
    # by "\n" only: arguments may contain other ends of lines
    return "\n".join(line for line in output.split("\n") if not line.startswith(f"{OTHER_RUN}\t"))


def _printable(word: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in word[:MAX_WORD])
