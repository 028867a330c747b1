"""An empty project with the repository's studies and a running lab, for benchmarks."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from loadbook.execution.progress import Progress
from loadbook.hosts.lab import DEFAULT_HOSTS, Lab, plan_hosts
from loadbook.store.paths import Layout

REPO = Path(__file__).parent.parent


@contextmanager
def lab_project(
    root: Path, min_hosts: Mapping[str, int] | None = None, plain: bool = False
) -> Iterator[tuple[Layout, Path]]:
    """Yield a project below `root` and the hosts file of its lab, which is stopped afterwards.

    The lab has a driver, a web host, and of each role in `min_hosts` at least that many hosts. With `plain`, studies
    that leave their execution to loadbook have plain trials.
    """
    for name in ("studies", "notebooks"):
        shutil.copytree(REPO / name, root / "home" / name)
    for file in (root / "home" / "studies").glob("*.toml") if plain else ():
        if "include = " not in (text := file.read_text()):
            file.write_text(f'execution = "plain"\n{text}')
    draw = random.Random(os.urandom(8))
    hosts = plan_hosts(DEFAULT_HOSTS, {}, min_hosts or {})
    lab = Lab(root / "lab", hosts, net_prefix=f"127.{draw.randrange(10, 250)}.{draw.randrange(250)}")
    try:
        lab.up()
        yield Layout(root / "home"), lab.hosts_file
    finally:
        lab.down()


def say(event: Progress) -> None:
    """Print notes and the progress of every thirtieth trial to stderr."""
    if event.kind == "note" or (event.kind == "trial-ended" and event.done % 30 == 0):
        print(event.line(), file=sys.stderr, flush=True)
