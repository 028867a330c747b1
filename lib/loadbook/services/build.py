"""Programs that come as sources: built on the host where it has what that needs, else here and carried there.

What is built stays on the host, in a folder named after the digest of sources and recipe, so that a run builds once
and another program has another name. A folder appears by one rename, with the file `.built` that says by what it was
made and for which machine; whatever it was that went wrong, nothing half-built is ever used.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import platform
import secrets
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import jinja2

from loadbook.core.errors import HostError, HostTimeoutError
from loadbook.hosts.host import Completed, Host
from loadbook.services.spec import Build, ServiceSpec

BUILT = "built"
CONTROL_S = 60.0
_WORDS = 800
_ANY = "any"
_EPOCH = 1

# $1 is the folder of what is built, the rest are programs that building needs
LOOK = """: loadbook looks for what is built
folder=$1
echo "machine $(uname -m)"
{ read -r line <"$folder/.built" && echo "built $line"; } 2>/dev/null
shift
for program; do command -v "$program" >/dev/null || echo "lacks $program"; done
"""
# $1 is an archive, $2 the folder that it is unpacked to
_UNPACK = """: loadbook unpacks what builds or is built
mkdir -p "$2" && tar -xzf "$1" -C "$2" && rm -f "$1"
"""
_RUN = """: loadbook builds
cd "$1" && shift && exec env "$@"
"""
# $1 is a whole folder, $2 its place; another run of ours may have been quicker, or the machine another one
_PLACE = """: loadbook places what is built
{ read -r ours <"$1/.built" && read -r theirs <"$2/.built"; } 2>/dev/null
if [ -n "$theirs" ] && [ "$ours" = "$theirs" ]; then rm -rf "$1"; else rm -rf "$2" && mv "$1" "$2"; fi
"""


class BuildError(HostError):
    """A program that could not be built, with the last words of every attempt and the ways out."""


class Built(NamedTuple):
    """What is built, on its host: the folder, and what it was made of and by, for the trial's record."""

    folder: str
    version: str


class _Look(NamedTuple):
    machine: str
    built: str | None
    lacks: list[str]


def digest(spec: ServiceSpec) -> str:
    """Return what tells one program from another: 12 hex digits of sha256 over its sources and its recipe."""
    recipe = _recipe(spec)
    total = hashlib.sha256(recipe.model_dump_json().encode())
    for name in recipe.sources:
        total.update(f"\0{name}\0".encode() + hashlib.sha256((spec.folder / name).read_bytes()).digest())
    return total.hexdigest()[:12]


def folder_name(spec: ServiceSpec) -> str:
    """Return the name of the folder of what is built, below the folder BUILT of a host's workdir."""
    return f"{spec.name}-{digest(spec)}"


def command(spec: ServiceSpec, machine: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return environment and argument list that build for `machine` (as `uname -m` says), for whoever shows them."""
    recipe = _recipe(spec)
    context = {"arch": recipe.arch.get(machine, "")}
    argv = tuple(jinja2.Template(item).render(context) for item in recipe.argv)
    return {name: jinja2.Template(text).render(context) for name, text in recipe.env.items()}, argv


def build(host: Host, spec: ServiceSpec) -> Built:
    """See that a service's program is on a host, building it if need be; one short script when it is there.

    Raises BuildError when neither the host nor this machine can build it, HostError when the host cannot be used.
    """
    seen = _look(host, spec)
    if not _fits(seen, _recipe(spec)):
        if host.live:  # a replay answers the second time with what had been built by then
            _make(host, spec, seen)
        seen = _look(host, spec)
    if not seen.built:
        raise BuildError(host.alias, f"{spec.name}: what was built is gone again: {_folder(host, spec)}")
    return Built(_folder(host, spec), f"{digest(spec)} ({seen.built.partition(' ')[2]})")


def _recipe(spec: ServiceSpec) -> Build:
    assert spec.build is not None, f"{spec.name} is not built"
    return spec.build


def _folder(host: Host, spec: ServiceSpec) -> str:
    return f"{host.workdir}/{BUILT}/{folder_name(spec)}"


def _look(host: Host, spec: ServiceSpec) -> _Look:
    args = [_folder(host, spec), *_recipe(spec).needs]
    answer = host.script(LOOK, args, timeout_s=CONTROL_S, check=True).stdout.decode(errors="replace")
    words = [line.split(" ", 1) for line in answer.splitlines() if " " in line]
    said = {name: value for name, value in words if name != "lacks"}
    return _Look(said.get("machine", ""), said.get("built"), [value for name, value in words if name == "lacks"])


def _fits(seen: _Look, recipe: Build) -> bool:
    return seen.built is not None and seen.built.split(" ")[0] == _target(recipe, seen.machine)


def _target(recipe: Build, machine: str) -> str:
    return _ANY if recipe.portable else machine


def _make(host: Host, spec: ServiceSpec, seen: _Look) -> None:
    part = f"{_folder(host, spec)}.{secrets.token_hex(6)}.part"
    failed = []
    try:
        for where, attempt in ((f"on {host.alias}", _there), ("here", _here)):
            try:
                attempt(host, spec, seen, part)
            except _FailedError as error:
                failed.append(f"  {where}: {error}")
            else:
                host.script(_PLACE, [part, _folder(host, spec)], timeout_s=CONTROL_S, check=True)
                return
    finally:
        with contextlib.suppress(HostError):
            host.remove(part)
    recipe = _recipe(spec)
    hint = f"on {host.alias} or here: {recipe.get}; it is built where {' and '.join(recipe.needs)} can be had"
    raise BuildError(host.alias, "\n".join([f"{spec.name} could not be built", *failed]), hint)


class _FailedError(Exception):
    """Why one attempt at building came to nothing."""


def _there(host: Host, spec: ServiceSpec, seen: _Look, part: str) -> None:
    """Build on the host, in the folder `part`."""
    recipe = _recipe(spec)
    if seen.lacks:
        raise _FailedError(f"no {', no '.join(seen.lacks)}")
    _carry(host, part, _packed({name: spec.folder / name for name in recipe.sources}))
    env, argv = command(spec, seen.machine)
    settings = [f"{name}={value}" for name, value in env.items()]
    try:
        done = host.script(_RUN, [part, *settings, *argv], timeout_s=recipe.timeout_s)
    except HostTimeoutError:
        raise _FailedError(_too_long(recipe, argv)) from None
    _check(done, argv)
    if not host.exists(f"{part}/{recipe.output}"):
        raise _FailedError(f"`{' '.join(argv)}` made no {recipe.output}")
    asked = host.run(recipe.version.argv, timeout_s=CONTROL_S)
    host.put(f"{part}/.built", _stamp(recipe, seen, asked))


def _here(host: Host, spec: ServiceSpec, seen: _Look, part: str) -> None:
    """Build on this machine and carry the folder to the host as `part`."""
    recipe = _recipe(spec)
    lacks = [program for program in recipe.needs if shutil.which(program) is None]
    if lacks:
        raise _FailedError(f"no {', no '.join(lacks)}")
    if not (recipe.portable or seen.machine in (*recipe.arch, platform.machine())):
        raise _FailedError(f"nothing can be built for a machine of the kind {seen.machine!r}")
    env, argv = command(spec, seen.machine)
    with tempfile.TemporaryDirectory(prefix=f"loadbook-{spec.name}-") as name:
        folder = Path(name)
        for source in recipe.sources:
            (folder / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(spec.folder / source, folder / source)
        _check(_local(argv, folder, env, recipe.timeout_s, _too_long(recipe, argv)), argv)
        if not (folder / recipe.output).exists():
            raise _FailedError(f"`{' '.join(argv)}` made no {recipe.output}")
        asked = _local(recipe.version.argv, folder, env, CONTROL_S, "does not tell its version")
        (folder / ".built").write_bytes(_stamp(recipe, seen, asked))
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
        raise _FailedError(late) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _too_long(recipe: Build, argv: tuple[str, ...]) -> str:
    return f"`{' '.join(argv)}` did not end within {recipe.timeout_s:g} s"


def _check(done: Completed, argv: tuple[str, ...]) -> None:
    if done.rc:
        words = (done.stdout + done.stderr).decode(errors="replace").strip()[-_WORDS:] or "it said nothing"
        raise _FailedError(f"`{' '.join(argv)}` ended with exit code {done.rc}: {words}")


def _stamp(recipe: Build, seen: _Look, asked: Completed) -> bytes:
    """Return the text of `.built`: the machine that it runs on, and by what it was built."""
    import re

    found = re.search(recipe.version.pattern, (asked.stdout + asked.stderr).decode(errors="replace"))
    tool = f"{recipe.needs[0]} {found[1]}" if found else recipe.needs[0]
    return f"{_target(recipe, seen.machine)} {tool}\n".encode()


def _packed(paths: Mapping[str, Path]) -> bytes:
    """Return files and folders as a tar.gz that is alike whoever packs it and whenever."""
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
