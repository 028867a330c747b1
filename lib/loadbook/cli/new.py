"""`loadbook new`: a study file to begin with; touches no host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from loadbook.cli.say import echo
from loadbook.core.errors import UsageError
from loadbook.records.layout import check_name, project_layout

if TYPE_CHECKING:
    from loadbook.records.layout import Layout
    from loadbook.services import ServiceSpec


@click.command()
@click.argument("study")
@click.option(
    "--service",
    "chain",
    multiple=True,
    metavar="[ROLE=]SERVICE",
    help="What answers; the role is web unless you say. Of several the first gets the load, each asks the next.",
)
@click.option("--try", "tried", multiple=True, metavar="[ROLE.]VAR=VALUE", help="Compare this value: a treatment.")
@click.option("--set", "fixed", multiple=True, metavar="[ROLE.]VAR=VALUE", help="What every treatment has.")
@click.option("--control", multiple=True, metavar="[ROLE.]VAR=VALUE", help="A cost that is known to be real.")
def new(
    study: str, chain: tuple[str, ...], tried: tuple[str, ...], fixed: tuple[str, ...], control: tuple[str, ...]
) -> None:
    """Write a study to begin with, studies/STUDY.toml: commented, with every variable of its services.

    For example: loadbook new gzip --service nginx --try gzip=on
    """
    from loadbook.records.atomic import write_atomic
    from loadbook.services.starter import starter_study, parse_setting

    here = project_layout()
    path = here.studies / f"{check_name('study', study)}.toml"
    if path.exists():
        raise UsageError(f"{path} is there already", "give the new study another name")
    services = _services(here, chain)
    wishes = [[parse_setting(text, services) for text in texts] for texts in (tried, fixed, control)]
    write_atomic(path, starter_study(study, services, *wishes).encode())
    echo(f"study {path}")
    echo(f"next: look at it, then loadbook plan {study}")


def _services(here: Layout, chain: tuple[str, ...]) -> dict[str, ServiceSpec]:
    """Return role -> service, in the order given."""
    from loadbook.services import known_services, load_service
    from loadbook.trials.studies import service_folders

    if not chain:
        known = ", ".join(known_services(service_folders(here)))
        raise UsageError("nothing is there that could answer", f"--service NAME; services: {known}")
    found: dict[str, ServiceSpec] = {}
    for text in chain:
        role, _, name = text.rpartition("=")
        role = role or "web"
        if role in found or role == "driver" or not role.isidentifier() or role != role.lower():
            raise UsageError(
                f"--service {text}: no role for it", "each its own, in small letters: --service balancer=haproxy"
            )
        found[role] = load_service(name, service_folders(here))
    return found
