"""One attempt at building a program: on its host, or on this machine and carried to the host."""

from __future__ import annotations

import io
import os
import platform
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from loadbook.core.errors import HostTimeoutError
from loadbook.hosts.host import Completed, Host
from loadbook.services.recipe import command, recipe_of, target
from loadbook.services.spec import Build, ServiceSpec

CONTROL_S, KILLED_S = 60.0, 5.0
STAMP = ".built"
_WORDS = 800
# before any clock: tar warns of files from the future
_EPOCH = 1

# $1 is an archive, $2 the folder that it is unpacked to
_UNPACK = """: loadbook unpacks what builds or is built
mkdir -p "$2" && tar -xzf "$1" -C "$2" && rm -f "$1"
"""
_RUN = """: loadbook builds
cd "$1" && shift && exec env "$@"
"""


class AttemptError(Exception):
    """Why one attempt at building came to nothing."""


def there(host: Host, spec: ServiceSpec, machine: str, lacks: Sequence[str], part: str) -> None:
    """Build on the host, which `lacks` programs, in its folder `part`; AttemptError says why that failed."""
    recipe = recipe_of(spec)
    if lacks:
        raise AttemptError(f"no {', no '.join(lacks)}")
    _carry(host, part, _packed({name: spec.folder / name for name in recipe.sources}))
    env, argv = command(spec, machine)
    settings = [f"{name}={value}" for name, value in env.items()]
    try:
        done = host.script(_RUN, [part, *settings, *argv], timeout_s=recipe.timeout_s)
    except HostTimeoutError:
        raise AttemptError(_too_long(recipe, argv)) from None
    _check(done, argv)
    if not host.exists(f"{part}/{recipe.output}"):
        raise AttemptError(f"`{' '.join(argv)}` made no {recipe.output}")
    asked = host.run(recipe.version.argv, timeout_s=CONTROL_S)
    host.put(f"{part}/{STAMP}", _stamp(recipe, machine, asked))


def here(host: Host, spec: ServiceSpec, machine: str, part: str) -> None:
    """Build on this machine and carry the folder to the host as `part`; AttemptError says why that failed."""
    recipe = recipe_of(spec)
    lacks = [program for program in recipe.needs if shutil.which(program) is None]
    if lacks:
        raise AttemptError(f"no {', no '.join(lacks)}")
    if not (recipe.portable or machine in (*recipe.arch, platform.machine())):
        raise AttemptError(f"nothing can be built for a machine of the kind {machine!r}")
    env, argv = command(spec, machine)
    with tempfile.TemporaryDirectory(prefix=f"loadbook-{spec.name}-") as name:
        folder = Path(name)
        for source in recipe.sources:
            (folder / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(spec.folder / source, folder / source)
        _check(_local(argv, folder, env, recipe.timeout_s, _too_long(recipe, argv)), argv)
        if not (folder / recipe.output).exists():
            raise AttemptError(f"`{' '.join(argv)}` made no {recipe.output}")
        asked = _local(recipe.version.argv, folder, env, CONTROL_S, "does not tell its version")
        (folder / STAMP).write_bytes(_stamp(recipe, machine, asked))
        host.remove(part)
        _carry(host, part, _packed({path.name: path for path in sorted(folder.iterdir())}))


def _local(argv: tuple[str, ...], folder: Path, env: Mapping[str, str], timeout_s: float, late: str) -> Completed:
    """Run a command on this machine with all that it starts in a group of its own, which ends when the time is up."""
    process = subprocess.Popen(
        argv, cwd=folder, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        return Completed(0, *process.communicate(timeout=timeout_s))._replace(rc=process.returncode)
    except subprocess.TimeoutExpired:
        raise AttemptError(late) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # a child that left the group may hold the pipes
                process.communicate(timeout=KILLED_S)


def _too_long(recipe: Build, argv: tuple[str, ...]) -> str:
    return f"`{' '.join(argv)}` did not end within {recipe.timeout_s:g} s"


def _check(done: Completed, argv: tuple[str, ...]) -> None:
    if done.rc:
        words = (done.stdout + done.stderr).decode(errors="replace").strip()[-_WORDS:] or "it said nothing"
        raise AttemptError(f"`{' '.join(argv)}` ended with exit code {done.rc}: {words}")


def _stamp(recipe: Build, machine: str, asked: Completed) -> bytes:
    """Return the text of STAMP: the machine that it runs on, and by what it was built."""
    found = re.search(recipe.version.pattern, (asked.stdout + asked.stderr).decode(errors="replace"))
    tool = f"{recipe.needs[0]} {found[1]}" if found else recipe.needs[0]
    return f"{target(recipe, machine)} {tool}\n".encode()


def _packed(paths: Mapping[str, Path]) -> bytes:
    """Return files and folders as a tar.gz, without whose they are here."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for name, path in paths.items():
            tar.add(path, name, filter=_plain)
    return packed.getvalue()


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid, info.gid, info.uname, info.gname, info.mtime = 0, 0, "root", "root", _EPOCH
    return info


def _carry(host: Host, part: str, packed: bytes) -> None:
    archive = f"{part}.tar.gz"
    host.put(archive, packed)
    host.script(_UNPACK, [archive, part], timeout_s=CONTROL_S, check=True)
