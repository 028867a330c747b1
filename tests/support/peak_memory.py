"""Peak memory of a child process alone; `ru_maxrss` would include the memory of its parent at the fork."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MAX_RSS_BYTES = 500_000_000
PEAK = r"""
import re
from pathlib import Path

def peak_bytes():
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
"""

# calls the command line with its own arguments, and prints that memory last
MEASURED = f"""{PEAK}
from loadbook.cli import main
try:
    main()
finally:
    print(peak_bytes())
"""


def call(home: Path, *words: object) -> tuple[int, str, int]:
    """Call `loadbook WORDS`; return its exit code, what it said, and the most memory that it had, bytes."""
    environment = os.environ | {"LOADBOOK_HOME": str(home), "COLUMNS": "300"}
    done = subprocess.run([sys.executable, "-c", MEASURED, *map(str, words)], env=environment, capture_output=True,
                          text=True, timeout=200)  # fmt: skip
    lines = done.stdout.splitlines()
    return done.returncode, done.stderr + "\n".join(lines[:-1]), int(lines[-1])


def grown(path: Path, start: bytes, size: int) -> Path:
    """Make a file of so many bytes, of which only the beginning takes room on the disk."""
    path.write_bytes(start)
    os.truncate(path, size)
    return path
