"""Programs that come as sources: built on the host where it has what that needs, else here and carried there.

What is built stays on the host, in a folder named after the digest of sources and recipe, so that a run builds once
and another program has another name. A folder appears by one rename, with the file `.built` that says by what it was
made and for which machine; whatever it was that went wrong, nothing half-built is ever used.
"""

from __future__ import annotations

import contextlib
import secrets
from functools import partial
from typing import NamedTuple

from loadbook.core.errors import HostError
from loadbook.hosts.host import Host
from loadbook.services.making import BUILD_CONTROL_TIMEOUT_S, AttemptError, build_locally, build_on_host
from loadbook.services.recipe import BUILT_FOLDER, program_digest, program_folder_name, build_spec, target_machine
from loadbook.services.spec import Build, ServiceSpec

# $1 is the folder of what is built, the rest are programs that building needs
BUILD_STATE_SCRIPT = """: loadbook looks for what is built
folder=$1
echo "machine $(uname -m)"
{ read -r line <"$folder/.built" && echo "built $line"; } 2>/dev/null
shift
for program; do command -v "$program" >/dev/null || echo "lacks $program"; done
"""
# $1 is a whole folder, $2 its place; another run of ours may have been quicker, or the machine another one
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
    """A program that could not be built, with the last words of every attempt and the ways out."""


class BuiltProgram(NamedTuple):
    """What is built, on its host: the folder, and what it was made of and by, for the trial's record."""

    folder: str
    version: str


class _BuildState(NamedTuple):
    machine: str
    built: str | None
    missing_programs: list[str]


def build(host: Host, spec: ServiceSpec) -> BuiltProgram:
    """See that a service's program is on a host, building it if need be; one short script when it is there.

    Raises BuildError when neither the host nor this machine can build it, HostError when the host cannot be used.
    """
    state = _read_build_state(host, spec)
    if not _is_current(state, build_spec(spec)):
        if host.live:  # a replay answers the second time with what had been built by then
            _build_missing(host, spec, state)
        state = _read_build_state(host, spec)
    if not state.built:
        raise BuildError(host.alias, f"{spec.name}: what was built is gone again: {_program_folder(host, spec)}")
    return BuiltProgram(_program_folder(host, spec), f"{program_digest(spec)} ({state.built.partition(' ')[2]})")


def _program_folder(host: Host, spec: ServiceSpec) -> str:
    return f"{host.workdir}/{BUILT_FOLDER}/{program_folder_name(spec)}"


def _read_build_state(host: Host, spec: ServiceSpec) -> _BuildState:
    args = [_program_folder(host, spec), *build_spec(spec).needs]
    answer = host.script(BUILD_STATE_SCRIPT, args, timeout_s=BUILD_CONTROL_TIMEOUT_S, check=True).stdout.decode(errors="replace")
    fields = [line.split(" ", 1) for line in answer.splitlines() if " " in line]
    values = {name: value for name, value in fields if name != "lacks"}
    return _BuildState(values.get("machine", ""), values.get("built"), [value for name, value in fields if name == "lacks"])


def _is_current(state: _BuildState, recipe: Build) -> bool:
    return state.built is not None and state.built.split(" ")[0] == target_machine(recipe, state.machine)


def _build_missing(host: Host, spec: ServiceSpec, state: _BuildState) -> None:
    folder = f"{_program_folder(host, spec)}.{secrets.token_hex(6)}.part"
    failures = []
    try:
        attempts = {
            f"on {host.alias}": partial(build_on_host, host, spec, state.machine, state.missing_programs, folder),
            "here": partial(build_locally, host, spec, state.machine, folder),
        }
        for location, attempt in attempts.items():
            try:
                attempt()
            except AttemptError as error:
                failures.append(f"  {location}: {error}")
            else:
                host.script(_INSTALL_SCRIPT, [folder, _program_folder(host, spec)], timeout_s=BUILD_CONTROL_TIMEOUT_S, check=True)
                return
    finally:
        with contextlib.suppress(HostError):
            host.remove(folder)
    recipe = build_spec(spec)
    hint = f"on {host.alias} or here: {recipe.get}; it is built where {' and '.join(recipe.needs)} can be had"
    raise BuildError(host.alias, "\n".join([f"{spec.name} could not be built", *failures]), hint)
