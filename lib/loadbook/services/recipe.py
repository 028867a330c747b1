"""How a program that comes as sources is made: by which command, and what tells it from another program."""

from __future__ import annotations

import hashlib
from functools import partial

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from loadbook.core.errors import SpecProblem, StudyError
from loadbook.services.spec import Build, ServiceSpec

BUILT_FOLDER = "built"
ANY_MACHINE = "any"


def build_spec(spec: ServiceSpec) -> Build:
    """Return how a service is built; it must be one that is."""
    assert spec.build is not None, f"{spec.name} is not built"
    return spec.build


def program_digest(spec: ServiceSpec) -> str:
    """Return what tells one program from another: 12 hex digits of sha256 over its sources and its recipe."""
    build = build_spec(spec)
    hasher = hashlib.sha256(build.model_dump_json().encode())
    for name in build.sources:
        hasher.update(f"\0{name}\0".encode() + hashlib.sha256((spec.folder / name).read_bytes()).digest())
    return hasher.hexdigest()[:12]


def program_folder_name(spec: ServiceSpec) -> str:
    """Return the name of the folder of what is built, below the folder BUILT_FOLDER of a host's workdir."""
    return f"{spec.name}-{program_digest(spec)}"


def build_command(spec: ServiceSpec, machine: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return environment and argument list that build for `machine` (as `uname -m` says); StudyError: bad templates."""
    build = build_spec(spec)
    render = partial(_render_template, arch=build.arch.get(machine, ""))
    try:
        return {name: render(text) for name, text in build.env.items()}, tuple(map(render, build.argv))
    except jinja2.TemplateError as error:
        raise StudyError(f"service {spec.name}", [SpecProblem("build", f"{type(error).__name__}: {error}")]) from error


def _render_template(text: str, arch: str) -> str:
    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined)
    return environment.from_string(text).render(arch=arch)


def target_machine(recipe: Build, machine: str) -> str:
    """Return the kind of machine that a program runs on which is built for `machine`."""
    return ANY_MACHINE if recipe.portable else machine
