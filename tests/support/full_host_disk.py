"""A small disk for the work folder of a lab's driver, and load generators that fill it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from loadbook.execution.host_state import HOST_MIN_BYTES
from misbehaving_tools import MisbehavingLab

WRK = 'tool = "wrk"\nconnections = 10\n'
FILL = "dd if=/dev/zero of={file} bs=64k 2>/dev/null; dd if=/dev/zero of={file}.more bs=1 count=70000 2>/dev/null"


@contextlib.contextmanager
def disk_of_its_own(misbehaving_lab: MisbehavingLab) -> Iterator[None]:
    """Make the work folder of the driver a disk of its own, just large enough to begin."""
    place = misbehaving_lab.lab.folder / "driver" / "work"
    size = f"size={HOST_MIN_BYTES + 10_000_000},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)], check=True, timeout=20)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True, timeout=20)
