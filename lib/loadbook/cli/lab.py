"""`loadbook lab up|down|status|cut|join`: the lab on this machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from loadbook.cli.say import echo
from loadbook.core.errors import UsageError
from loadbook.records.layout import project_layout

if TYPE_CHECKING:
    from loadbook.hosts.lab import LabKind, Lab, LabHostStatus

CUT_S = 10.0
_COUNT = re.compile(r"([a-z][a-z0-9_-]*)(?:=(\d{1,3}))?")


@click.group()
def lab() -> None:
    """Real sshd processes on this machine, one per host alias.

    On loopback addresses as the invoking user, or as root in network namespaces (docs/lab.md).
    """


@lab.command()
@click.option("--drivers", type=click.IntRange(1, 8), help="Hosts that put load; without it: as many as there are.")
@click.option("--roles", default="", help="Hosts of other roles, such as web=4,balancer; those not named stay.")
@click.option("--kind", type=click.Choice(["loopback", "netns"]), help="Default: as it is; loopback in a new lab.")
def up(drivers: int | None, roles: str, kind: LabKind | None) -> None:
    """Bring the lab up; a lab that runs is left alone, one of the other kind goes down first."""
    from loadbook.hosts.lab import Lab

    ours = Lab.load(project_layout().lab, drivers, _counts(roles), kind=kind)
    states = ours.up()
    _print(states)
    if any(state.cpus is None for state in states):
        echo("note: too few CPUs for masks: driver and server will disturb each other", err=True)
    echo(f"{ours.kind} lab, hosts file: {ours.hosts_file}", err=True)


@lab.command()
def down() -> None:
    """End the lab with everything that runs in it."""
    _print(_lab().down())


@lab.command()
def status() -> None:
    """Show what is up; exit code 3 if anything is not."""
    states = _lab().status()
    _print(states)
    if not states or any(state.pid is None for state in states):
        echo("next: loadbook lab up", err=True)
        sys.exit(3)


@lab.command()
@click.argument("host")
@click.option("--seconds", default=CUT_S, show_default=True, help="After this time the link is there again by itself.")
def cut(host: str, seconds: float) -> None:
    """Cut a host off from all others, and from us, to see what a study makes of it (namespace lab)."""
    _lab().cut_link(host, seconds)
    echo(f"{host} is cut off for {seconds:g} s, or until: loadbook lab join {host}", err=True)


@lab.command()
@click.argument("host")
def join(host: str) -> None:
    """Give a host that was cut off its link back."""
    _lab().restore_link(host)


def _lab() -> Lab:
    from loadbook.hosts.lab import Lab

    return Lab.load(project_layout().lab)


def _counts(text: str) -> Mapping[str, int]:
    """Read `web=4,balancer`: role -> how many hosts, one where no number stands."""
    found = [_COUNT.fullmatch(part.strip()) for part in text.split(",") if part.strip()]
    if None in found:
        raise UsageError(f"--roles {text}: not roles with numbers of hosts", "for example --roles web=4,balancer")
    return {match[1]: int(match[2] or 1) for match in found if match}


def _print(states: Sequence[LabHostStatus]) -> None:
    for state in states:
        mask = "no mask" if state.cpus is None else f"CPU {','.join(map(str, state.cpus))}"
        running = "down" if state.pid is None else f"up, process {state.pid}"
        echo(f"{state.alias}\t{state.address}:{state.port}\t{mask}\t{running}{', cut off' * state.link_cut}")
    if not states:
        echo("there is no lab yet")
