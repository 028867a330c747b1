"""Processes of a running service: their ids, and the number of its workers (`[workers]` in service.toml)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from loadbook.hosts.script import DRY_RUN_PID, Script
from loadbook.services.spec import Workers

# Prints id, number of threads and command line (without separators) of the processes with the name $2 in the session or
# process group whose leader is $1.
PROCESSES_SCRIPT = Script(
    """leader=$1 name=$2
for file in /proc/[0-9]*/stat; do
  { read -r line < "$file"; } 2>/dev/null || continue
  comm=${line#*\\(} comm=${comm%\\)*}
  [ "$comm" = "$name" ] || continue
  pid=${line%% *}
  set -- ${line##*\\) }
  if [ "$3" = "$leader" ] || [ "$4" = "$leader" ]; then
    command=
    { read -r command < "/proc/$pid/cmdline"; } 2>/dev/null
    printf '%s\\n' "$pid ${18} $command"
  fi
done
:
""",
    purpose="its processes",
    answer=str(DRY_RUN_PID),
)


class ServiceProcess(NamedTuple):
    """One process: id, number of threads and command line; 0 and "" where a recorded run has only the id."""

    pid: int
    threads: int
    command: str


def parse_processes(output: str) -> list[ServiceProcess]:
    """Return the processes that PROCESSES_SCRIPT printed, in the order of their ids (oldest first)."""
    words = [[*line.split(" ", 2), "0", ""] for line in output.splitlines() if line.strip()]
    return sorted(ServiceProcess(int(pid), int(threads), command) for pid, threads, command, *_ in words)


def count_workers(workers: Workers | None, processes: Sequence[ServiceProcess]) -> int | None:
    """Return the number of worker processes; None if it is not known, or if there is none.

    Without a pattern for worker processes (`workers.process`), the threads of all processes are counted.
    """
    if workers is None:
        return None
    if workers.process is None:
        return sum(process.threads for process in processes) or None
    return sum(bool(re.search(workers.process, process.command)) for process in processes) or None
