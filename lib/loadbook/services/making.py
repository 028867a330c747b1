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
from loadbook.hosts.host import CommandResult, Host
from loadbook.services.recipe import build_command, build_spec, target_machine
from loadbook.services.spec import Build, ServiceSpec

BUILD_CONTROL_TIMEOUT_S, KILL_TIMEOUT_S = 60.0, 5.0
STAMP_FILE = ".built"
_OUTPUT_CHARS = 800
# before any clock: tar warns of files from the future
_EPOCH = 1

# $1 is an archive, $2 the folder that it is unpacked to
_UNPACK_SCRIPT = """: loadbook unpacks what builds or is built
mkdir -p "$2" && tar -xzf "$1" -C "$2" && rm -f "$1"
"""
_BUILD_SCRIPT = """: loadbook builds
cd "$1" && shift && exec env "$@"
"""


class AttemptError(Exception):
    """Why one attempt at building came to nothing."""


def build_on_host(host: Host, spec: ServiceSpec, machine: str, missing: Sequence[str], partial: str) -> None:
    """Build on the host, which `missing` programs, in its folder `partial`; AttemptError says why that failed."""
    recipe = build_spec(spec)
    if missing:
        raise AttemptError(f"no {', no '.join(missing)}")
    _upload_archive(host, partial, _tar_gz({name: spec.folder / name for name in recipe.sources}))
    env, argv = build_command(spec, machine)
    settings = [f"{name}={value}" for name, value in env.items()]
    try:
        done = host.script(_BUILD_SCRIPT, [partial, *settings, *argv], timeout_s=recipe.timeout_s)
    except HostTimeoutError:
        raise AttemptError(_timeout_message(recipe, argv)) from None
    _check_build(done, argv)
    if not host.exists(f"{partial}/{recipe.output}"):
        raise AttemptError(f"`{' '.join(argv)}` made no {recipe.output}")
    version_output = host.run(recipe.version.argv, timeout_s=BUILD_CONTROL_TIMEOUT_S)
    host.put(f"{partial}/{STAMP_FILE}", _stamp_text(recipe, machine, version_output))


def build_locally(host: Host, spec: ServiceSpec, machine: str, partial: str) -> None:
    """Build on this machine and carry the folder to the host as `partial`; AttemptError says why that failed."""
    recipe = build_spec(spec)
    missing = [program for program in recipe.needs if shutil.which(program) is None]
    if missing:
        raise AttemptError(f"no {', no '.join(missing)}")
    if not (recipe.portable or machine in (*recipe.arch, platform.machine())):
        raise AttemptError(f"nothing can be built for a machine of the kind {machine!r}")
    env, argv = build_command(spec, machine)
    with tempfile.TemporaryDirectory(prefix=f"loadbook-{spec.name}-") as name:
        folder = Path(name)
        for source in recipe.sources:
            (folder / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(spec.folder / source, folder / source)
        _check_build(_run_locally(argv, folder, env, recipe.timeout_s, _timeout_message(recipe, argv)), argv)
        if not (folder / recipe.output).exists():
            raise AttemptError(f"`{' '.join(argv)}` made no {recipe.output}")
        version_output = _run_locally(recipe.version.argv, folder, env, BUILD_CONTROL_TIMEOUT_S, "does not tell its version")
        (folder / STAMP_FILE).write_bytes(_stamp_text(recipe, machine, version_output))
        host.remove(partial)
        _upload_archive(host, partial, _tar_gz({path.name: path for path in sorted(folder.iterdir())}))


def _run_locally(argv: tuple[str, ...], folder: Path, env: Mapping[str, str], timeout_s: float, timeout_message: str) -> CommandResult:
    """Run a command on this machine with all that it starts in a group of its own, which ends when the time is up."""
    process = subprocess.Popen(
        argv, cwd=folder, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        return CommandResult(0, *process.communicate(timeout=timeout_s))._replace(rc=process.returncode)
    except subprocess.TimeoutExpired:
        raise AttemptError(timeout_message) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # a child that left the group may hold the pipes
                process.communicate(timeout=KILL_TIMEOUT_S)


def _timeout_message(recipe: Build, argv: tuple[str, ...]) -> str:
    return f"`{' '.join(argv)}` did not end within {recipe.timeout_s:g} s"


def _check_build(done: CommandResult, argv: tuple[str, ...]) -> None:
    if done.rc:
        output = (done.stdout + done.stderr).decode(errors="replace").strip()[-_OUTPUT_CHARS:] or "it said nothing"
        raise AttemptError(f"`{' '.join(argv)}` ended with exit code {done.rc}: {output}")


def _stamp_text(recipe: Build, machine: str, version_output: CommandResult) -> bytes:
    """Return the text of STAMP_FILE: the machine that it runs on, and by what it was built."""
    found = re.search(recipe.version.pattern, (version_output.stdout + version_output.stderr).decode(errors="replace"))
    tool = f"{recipe.needs[0]} {found[1]}" if found else recipe.needs[0]
    return f"{target_machine(recipe, machine)} {tool}\n".encode()


def _tar_gz(paths: Mapping[str, Path]) -> bytes:
    """Return files and folders as a tar.gz, without whose they are here."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for name, path in paths.items():
            tar.add(path, name, filter=_without_owner)
    return buffer.getvalue()


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid, info.gid, info.uname, info.gname, info.mtime = 0, 0, "root", "root", _EPOCH
    return info


def _upload_archive(host: Host, partial: str, data: bytes) -> None:
    archive = f"{partial}.tar.gz"
    host.put(archive, data)
    host.script(_UNPACK_SCRIPT, [archive, partial], timeout_s=BUILD_CONTROL_TIMEOUT_S, check=True)
