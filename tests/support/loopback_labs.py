"""A lab for one test: real sshd servers on unused loopback addresses, which are stopped at the end."""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loadbook.hosts.lab import Lab


@contextmanager
def own_lab(**options: Any) -> Iterator[Lab]:
    """Yield a running lab; `options` are those of Lab, such as its hosts."""
    folder = Path(tempfile.mkdtemp(prefix="lb-"))
    with _own_network() as prefix:
        own = Lab(folder / "lab", net_prefix=prefix, **options)
        try:
            own.up()
            yield own
        finally:
            own.down()
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _own_network() -> Iterator[str]:
    """Yield the first three bytes of loopback addresses that no other lab of a test has; a socket's name holds them."""
    draw = random.Random(os.urandom(8))
    while True:
        prefix = f"127.{draw.randrange(10, 250)}.{draw.randrange(250)}"
        with socket.socket(socket.AF_UNIX) as holder:
            try:
                holder.bind(f"\0loadbook-lab-{prefix}")
            except OSError:
                continue
            yield prefix
            return


def processes_in(folder: Path) -> Iterator[bytes]:
    """Yield the command lines of the processes that a folder belongs to."""
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            line, state = (proc / "cmdline").read_bytes(), (proc / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and (str(folder).encode() in line or (proc / "cwd").readlink().is_relative_to(folder)):
                yield line
        except OSError:
            continue
