"""Projects whose study changes a server that was there before, and what its host has afterwards."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from loadbook.hosts.host import Host
from loadbook.hosts.lab import Lab
from loadbook.hosts.remote import connect
from loadbook.store.paths import Layout
from waiting import PATIENCE_S

STUDY = """
schema = 1
name = "own"
question = "Do more workers help the server as it is installed?"
baseline = "one"
blocks = {blocks}

[roles.driver]

[roles.web]
service = "{service}"
mode = "system"

[factors]
{var} = {{ levels = {levels} }}

[treatments.one]
[treatments.other]
set = {{ {var} = {other} }}

[workload]
tool = "wrk"
path = "/.loadbook/config-id"
connections = 4
threads = 1
duration_s = 1
warmup_s = 0
"""


def project(folder: Path, service: str, var: str, levels: list, blocks: int = 1) -> Layout:
    for name in ("studies", "notebooks"):
        (folder / name).mkdir()
    if (folder / service).is_dir():
        shutil.copytree(folder / service, folder / "studies/services" / service)
    text = STUDY.format(service=service, var=var, levels=json.dumps(levels), other=json.dumps(levels[1]), blocks=blocks)
    (folder / "studies/own.toml").write_text(text)
    return Layout(folder)


def records(layout: Layout, run: str) -> dict[str, dict]:
    raw = layout.run("own", run).raw
    paths = [path for kept in ("failed", "trials") for path in sorted((raw / kept).glob("*/trial.json"))]
    return {record["treatment"]: record for record in map(json.loads, (path.read_text() for path in paths))}


# -- the distribution's own nginx, in namespaces --

TREE = """cd /etc/nginx && find . -exec stat -c '%n %F %a %u:%g' {} + | sort && find . -type l -exec readlink {} + &&
find . -type f -exec sha256sum {} + | sort"""


@contextlib.contextmanager
def packaged_nginx(spaces: Lab) -> Iterator[Host]:
    """Yield the host `web`, on which the nginx of the distribution runs with its own files."""
    with contextlib.closing(connect(spaces.hosts_file, "web", "distribution")) as host:
        host.run(["nginx"], timeout_s=PATIENCE_S, check=True)
        try:
            yield host
        finally:
            host.run(["nginx", "-s", "stop"], timeout_s=PATIENCE_S)


def tree(host: Host) -> bytes:
    return host.script(TREE, timeout_s=PATIENCE_S, check=True).stdout


def server(host: Host) -> bytes:
    return host.http_get(host.address, 80, "/", timeout_s=PATIENCE_S).body
