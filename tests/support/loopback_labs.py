"""A lab for one test: real sshd servers on unused loopback addresses, which are stopped at the end."""

from __future__ import annotations

import os
import random
import shutil
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
    draw = random.Random(os.urandom(8))
    own = Lab(folder / "lab", net_prefix=f"127.{draw.randrange(10, 250)}.{draw.randrange(250)}", **options)
    try:
        own.up()
        yield own
    finally:
        own.down()
        shutil.rmtree(folder, ignore_errors=True)
