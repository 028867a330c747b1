"""Which runs are under way on a host: told by their live sessions, not by a lock that a dead controller would leave."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from loadbook.core.errors import UsageError
from loadbook.hosts.sshd import Sshd

# run in a host's work folder: prints the name of every session whose controller lives
SESSIONS = """
for watcher in sessions/*/watcher; do
  folder=${watcher%/watcher}
  [ -e "$watcher" ] && [ ! -e "$folder/lost" ] && read -r pid born <"$watcher" || continue
  if kill -0 "$pid" 2>/dev/null; then echo "${folder#sessions/}"; fi
done
"""
LOOK_S = 20.0
_OF_RUN = re.compile(r"(\d{8}-\d{6}(?:-\d+)?)-[0-9a-f]{12}")


def runs_in(answer: bytes) -> set[str]:
    """Return the ids of the runs among what SESSIONS printed."""
    return {m[1] for line in answer.decode(errors="replace").splitlines() if (m := _OF_RUN.fullmatch(line))}


def runs_at(workdir: Path) -> set[str]:
    """Return the ids of the runs under way in a work folder of this machine."""
    if not workdir.is_dir():
        return set()
    done = subprocess.run(
        ["/bin/sh", "-c", SESSIONS], cwd=workdir, stdin=subprocess.DEVNULL, capture_output=True, timeout=LOOK_S,
        check=False,
    )  # fmt: skip
    return runs_in(done.stdout)


def must_be_idle(servers: Sequence[Sshd]) -> None:
    """Raise UsageError when a run is under way on one of these hosts, which are to be ended."""
    for server in servers:
        if runs := runs_at(server.workdir):
            said = f"host {server.alias} of the lab is in use by run {', '.join(sorted(runs))}"
            raise UsageError(f"{said}, and would have to be changed", "wait for its end, or end it: loadbook lab down")
