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
from loadbook.services.making import CONTROL_S, AttemptError, here, there
from loadbook.services.recipe import BUILT, digest, folder_name, recipe_of, target
from loadbook.services.spec import Build, ServiceSpec

# $1 is the folder of what is built, the rest are programs that building needs
LOOK = """: loadbook looks for what is built
folder=$1
echo "machine $(uname -m)"
{ read -r line <"$folder/.built" && echo "built $line"; } 2>/dev/null
shift
for program; do command -v "$program" >/dev/null || echo "lacks $program"; done
"""
# $1 is a whole folder, $2 its place; another run of ours may have been quicker, or the machine another one
_PLACE = """: loadbook places what is built
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


class Built(NamedTuple):
    """What is built, on its host: the folder, and what it was made of and by, for the trial's record."""

    folder: str
    version: str


class _Look(NamedTuple):
    machine: str
    built: str | None
    lacks: list[str]


def build(host: Host, spec: ServiceSpec) -> Built:
    """See that a service's program is on a host, building it if need be; one short script when it is there.

    Raises BuildError when neither the host nor this machine can build it, HostError when the host cannot be used.
    """
    seen = _look(host, spec)
    if not _fits(seen, recipe_of(spec)):
        if host.live:  # a replay answers the second time with what had been built by then
            _make(host, spec, seen)
        seen = _look(host, spec)
    if not seen.built:
        raise BuildError(host.alias, f"{spec.name}: what was built is gone again: {_folder(host, spec)}")
    return Built(_folder(host, spec), f"{digest(spec)} ({seen.built.partition(' ')[2]})")


def _folder(host: Host, spec: ServiceSpec) -> str:
    return f"{host.workdir}/{BUILT}/{folder_name(spec)}"


def _look(host: Host, spec: ServiceSpec) -> _Look:
    args = [_folder(host, spec), *recipe_of(spec).needs]
    answer = host.script(LOOK, args, timeout_s=CONTROL_S, check=True).stdout.decode(errors="replace")
    words = [line.split(" ", 1) for line in answer.splitlines() if " " in line]
    said = {name: value for name, value in words if name != "lacks"}
    return _Look(said.get("machine", ""), said.get("built"), [value for name, value in words if name == "lacks"])


def _fits(seen: _Look, recipe: Build) -> bool:
    return seen.built is not None and seen.built.split(" ")[0] == target(recipe, seen.machine)


def _make(host: Host, spec: ServiceSpec, seen: _Look) -> None:
    part = f"{_folder(host, spec)}.{secrets.token_hex(6)}.part"
    failed = []
    try:
        attempts = {
            f"on {host.alias}": partial(there, host, spec, seen.machine, seen.lacks, part),
            "here": partial(here, host, spec, seen.machine, part),
        }
        for where, attempt in attempts.items():
            try:
                attempt()
            except AttemptError as error:
                failed.append(f"  {where}: {error}")
            else:
                host.script(_PLACE, [part, _folder(host, spec)], timeout_s=CONTROL_S, check=True)
                return
    finally:
        with contextlib.suppress(HostError):
            host.remove(part)
    recipe = recipe_of(spec)
    hint = f"on {host.alias} or here: {recipe.get}; it is built where {' and '.join(recipe.needs)} can be had"
    raise BuildError(host.alias, "\n".join([f"{spec.name} could not be built", *failed]), hint)
