"""`loadbook lab up|down|status`: the loopback lab."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from loadbook.records.layout import layout

if TYPE_CHECKING:
    from loadbook.hosts.lab import Lab, Status


@click.group()
def lab() -> None:
    """Real sshd processes on loopback addresses, one per host alias, as the invoking user."""


@lab.command()
@click.option("--drivers", type=click.IntRange(1, 8), help="Hosts that put load; without it: as many as there are.")
def up(drivers: int | None) -> None:
    """Bring the lab up; a lab that runs is left alone."""
    ours = _lab(drivers)
    states = ours.up()
    _print(states)
    if any(state.cpus is None for state in states):
        click.echo("note: too few CPUs for masks: driver and server will disturb each other", err=True)
    click.echo(f"hosts file: {ours.hosts_file}", err=True)


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
        click.echo("next: loadbook lab up", err=True)
        sys.exit(3)


def _lab(drivers: int | None = None) -> Lab:
    from loadbook.hosts.lab import Lab

    return Lab.at(layout().lab, drivers)


def _print(states: Sequence[Status]) -> None:
    for state in states:
        mask = "no mask" if state.cpus is None else f"CPU {','.join(map(str, state.cpus))}"
        running = "down" if state.pid is None else f"up, process {state.pid}"
        click.echo(f"{state.alias}\t{state.address}:{state.port}\t{mask}\t{running}")
    if not states:
        click.echo("there is no lab yet")
