"""Builds programs distributed as sources: on the host if it has the compiler, else on this machine, then copied.

A program is kept on the host, in a folder named after the digest of its sources and recipe, so that it is built once.
The folder gets its name when the build is complete, with a file `.built` that contains machine type and compiler, so
that a half-built program is never used.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import secrets
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from loadbook.core.errors import HostError, HostTimeoutError, SpecProblem, StudyError
from loadbook.hosts.host import CommandResult, Host
from loadbook.hosts.script import Script
from loadbook.hosts.shell import search_path
from loadbook.services.spec import Build, ServiceSpec

BUILT_FOLDER = "built"


def _recipe_of(spec: ServiceSpec) -> Build:
    """Return the build recipe of a service that is built from sources."""
    assert spec.build is not None, f"{spec.name} is not built"
    return spec.build


def program_digest(spec: ServiceSpec) -> str:
    """Return an id of a built program: 12 hex digits of the sha256 of its sources and its build recipe."""
    build = _recipe_of(spec)
    hasher = hashlib.sha256(build.model_dump_json().encode())
    for name in build.sources:
        hasher.update(f"\0{name}\0".encode() + hashlib.sha256((spec.folder / name).read_bytes()).digest())
    return hasher.hexdigest()[:12]


def program_folder_name(spec: ServiceSpec) -> str:
    """Return the name of a built program's folder, which is in BUILT_FOLDER below the host's work folder."""
    return f"{spec.name}-{program_digest(spec)}"


def build_command(spec: ServiceSpec, machine: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return environment variables and argument list of the build command for `machine` (as `uname -m` prints it)."""
    recipe = _recipe_of(spec)
    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined)

    def render(text: str) -> str:
        return environment.from_string(text).render(arch=recipe.arch.get(machine, ""))

    try:
        return {name: render(text) for name, text in recipe.env.items()}, tuple(map(render, recipe.argv))
    except jinja2.TemplateError as error:
        raise StudyError(f"service {spec.name}", [SpecProblem("build", f"{type(error).__name__}: {error}")]) from error


def _target_machine(recipe: Build, machine: str) -> str:
    """Return the machine type that a program built for `machine` runs on; "any" if it is portable."""
    return "any" if recipe.portable else machine


BUILD_CONTROL_TIMEOUT_S, KILL_TIMEOUT_S = 60.0, 5.0
STAMP_FILE = ".built"
_OUTPUT_CHARS = 800
_EPOCH = 1  # time stamp of files in archives, in the past for any clock, since tar warns of files from the future

# $1 is an archive, $2 the folder to unpack to
_UNPACK_SCRIPT = """: loadbook unpacks what builds or is built
mkdir -p "$2" && tar -xzf "$1" -C "$2" && rm -f "$1"
"""
_BUILD_SCRIPT = """: loadbook builds
cd "$1" && shift && exec env "$@"
"""


class _AttemptError(Exception):
    """One attempt to build a program has failed; the message is the reason."""


def _build_on_host(host: Host, spec: ServiceSpec, machine: str, missing: Sequence[str], partial: str) -> None:
    """Build a program on the host in the folder `partial`; _AttemptError if it lacks programs (`missing`) or fails."""
    recipe = _recipe_of(spec)
    _check_programs(missing)
    _upload_archive(host, partial, _tar_gz({name: spec.folder / name for name in recipe.sources}))
    env, argv = build_command(spec, machine)
    settings = [f"{name}={value}" for name, value in env.items()]
    try:
        done = host.script(_BUILD_SCRIPT, [partial, *settings, *argv], timeout_s=recipe.timeout_s)
    except HostTimeoutError:
        raise _AttemptError(_timeout_message(recipe, argv)) from None
    _check_output(recipe, argv, done, lambda: host.exists(f"{partial}/{recipe.output}"))
    version_output = host.run(recipe.version.argv, timeout_s=BUILD_CONTROL_TIMEOUT_S)
    host.put(f"{partial}/{STAMP_FILE}", _stamp_text(recipe, machine, version_output))


def _build_locally(host: Host, spec: ServiceSpec, machine: str, partial: str) -> None:
    """Build a program on this machine and copy its folder to the host as `partial`; _AttemptError if that fails."""
    recipe = _recipe_of(spec)
    _check_programs([program for program in recipe.needs if shutil.which(program, path=search_path()) is None])
    if not (recipe.portable or machine in (*recipe.arch, platform.machine())):
        raise _AttemptError(f"nothing can be built for a machine of the kind {machine!r}")
    env, argv = build_command(spec, machine)
    with tempfile.TemporaryDirectory(prefix=f"loadbook-{spec.name}-") as name:
        folder = Path(name)
        for source in recipe.sources:
            (folder / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(spec.folder / source, folder / source)
        done = _run_locally(argv, folder, env, recipe.timeout_s, _timeout_message(recipe, argv))
        _check_output(recipe, argv, done, (folder / recipe.output).exists)
        version_argv, message = recipe.version.argv, "does not tell its version"
        version_output = _run_locally(version_argv, folder, env, BUILD_CONTROL_TIMEOUT_S, message)
        (folder / STAMP_FILE).write_bytes(_stamp_text(recipe, machine, version_output))
        host.remove(partial)
        _upload_archive(host, partial, _tar_gz({path.name: path for path in sorted(folder.iterdir())}))


def _run_locally(
    argv: tuple[str, ...], folder: Path, env: Mapping[str, str], timeout_s: float, timeout_message: str
) -> CommandResult:
    """Run a command in a process group of its own, which is killed at the time limit, and return its result."""
    process = subprocess.Popen(
        argv, cwd=folder, env={**os.environ, "PATH": search_path(), **env}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        return CommandResult(0, *process.communicate(timeout=timeout_s))._replace(rc=process.returncode)
    except subprocess.TimeoutExpired:
        raise _AttemptError(timeout_message) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # a child that left the group may hold the pipes
                process.communicate(timeout=KILL_TIMEOUT_S)


def _timeout_message(recipe: Build, argv: tuple[str, ...]) -> str:
    return f"`{' '.join(argv)}` did not end within {recipe.timeout_s:g} s"


def _check_programs(missing: Sequence[str]) -> None:
    if missing:
        raise _AttemptError(f"no {', no '.join(missing)}")


def _check_output(recipe: Build, argv: tuple[str, ...], done: CommandResult, is_there: Callable[[], bool]) -> None:
    """Raise _AttemptError unless the build command succeeded and its output file exists (`is_there`)."""
    if done.rc:
        output = (done.stdout + done.stderr).decode(errors="replace").strip()[-_OUTPUT_CHARS:] or "it printed nothing"
        raise _AttemptError(f"`{' '.join(argv)}` ended with exit code {done.rc}: {output}")
    if not is_there():
        raise _AttemptError(f"`{' '.join(argv)}` made no {recipe.output}")


def _stamp_text(recipe: Build, machine: str, version_output: CommandResult) -> bytes:
    """Return the content of STAMP_FILE: machine type, compiler and the compiler's version."""
    match = re.search(recipe.version.pattern, (version_output.stdout + version_output.stderr).decode(errors="replace"))
    tool = f"{recipe.needs[0]} {match[1]}" if match else recipe.needs[0]
    return f"{_target_machine(recipe, machine)} {tool}\n".encode()


def _tar_gz(paths: Mapping[str, Path]) -> bytes:
    """Return files and folders (name -> path) as a tar.gz archive without user names."""
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


# $1 is the folder of the built program, the other arguments are programs that are needed to build it
BUILD_STATE_SCRIPT = Script(
    """: loadbook looks for what is built
folder=$1
echo "machine $(uname -m)"
{ read -r line <"$folder/.built" && echo "built $line"; } 2>/dev/null
shift
for program; do command -v "$program" >/dev/null || echo "lacks $program"; done
""",
    answer="machine any\nbuilt any -",
)
# $1 is a complete folder, $2 its final name, which may exist already: built by another run, or for another machine
_INSTALL_SCRIPT = """: loadbook places what is built
tries=50 # one at a time; whoever died at it is not waited for any longer
until mkdir "$2.placing" 2>/dev/null || [ "$tries" -eq 0 ]; do
  tries=$((tries - 1))
  sleep 0.1 2>/dev/null || sleep 1
done
{ read -r ours <"$1/.built" && read -r theirs <"$2/.built"; } 2>/dev/null
if [ -n "$theirs" ] && [ "$ours" = "$theirs" ]; then rm -rf "$1"; else rm -rf "$2" && mv "$1" "$2"; fi
rc=$?
rmdir "$2.placing"
exit $rc
"""


class BuildError(HostError):
    """A program could not be built; the message has the output of every attempt and the remedies."""


class BuiltProgram(NamedTuple):
    """A built program: its folder on the host, and a text for the record with `program_digest` and compiler."""

    folder: str
    version: str


class _BuildState(NamedTuple):
    machine: str
    built: str | None
    missing_programs: list[str]


def build(host: Host, spec: ServiceSpec) -> BuiltProgram:
    """Build a service's program unless it is already on the host, which one short script checks; return it.

    Raises BuildError if neither the host nor this machine can build it, HostError if the host cannot be used.
    """
    state = _read_build_state(host, spec)
    machine = state.built.split(" ")[0] if state.built else None
    if machine != _target_machine(_recipe_of(spec), state.machine):
        if host.live:  # a replay builds nothing: its answer to the second call is that the program exists
            _build_missing(host, spec, state)
        state = _read_build_state(host, spec)
    if not state.built:
        raise BuildError(host.alias, f"{spec.name}: what was built is gone again: {_program_folder(host, spec)}")
    return BuiltProgram(_program_folder(host, spec), f"{program_digest(spec)} ({state.built.partition(' ')[2]})")


def _program_folder(host: Host, spec: ServiceSpec) -> str:
    return f"{host.workdir}/{BUILT_FOLDER}/{program_folder_name(spec)}"


def _read_build_state(host: Host, spec: ServiceSpec) -> _BuildState:
    args = [_program_folder(host, spec), *_recipe_of(spec).needs]
    done = host.script(
        BUILD_STATE_SCRIPT.used_for(f"is {spec.name} built?"), args, timeout_s=BUILD_CONTROL_TIMEOUT_S, check=True
    )
    fields = [line.split(" ", 1) for line in done.text.splitlines() if " " in line]
    values, missing = dict(fields), [value for name, value in fields if name == "lacks"]
    return _BuildState(values.get("machine", ""), values.get("built"), missing)


def _build_missing(host: Host, spec: ServiceSpec, state: _BuildState) -> None:
    folder = f"{_program_folder(host, spec)}.{secrets.token_hex(6)}.part"
    failures = []
    try:
        attempts = {
            f"on {host.alias}": partial(_build_on_host, host, spec, state.machine, state.missing_programs, folder),
            "here": partial(_build_locally, host, spec, state.machine, folder),
        }
        for location, attempt in attempts.items():
            try:
                attempt()
            except _AttemptError as error:
                failures.append(f"  {location}: {error}")
            else:
                args = [folder, _program_folder(host, spec)]
                host.script(_INSTALL_SCRIPT, args, timeout_s=BUILD_CONTROL_TIMEOUT_S, check=True)
                return
    finally:
        with suppress(HostError):
            host.remove(folder)
    recipe = _recipe_of(spec)
    hint = f"on {host.alias} or here: {recipe.get}; it is built where {' and '.join(recipe.needs)} can be had"
    raise BuildError(host.alias, "\n".join([f"{spec.name} could not be built", *failures]), hint)
