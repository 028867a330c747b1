"""`loadbook restore`: hosts as they were found, after whatever ended a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadbook.cli.hosts import hosts_option, read_inventory
from loadbook.cli.say import echo
from loadbook.core.errors import HostError, UsageError
from loadbook.core.text import clean

if TYPE_CHECKING:
    from loadbook.hosts.inventory import HostsFile

RUN = "restore"


@click.command()
@click.argument("aliases", metavar="[HOST]...", nargs=-1)
@hosts_option
def restore(aliases: tuple[str, ...], hosts_file: Path | None) -> None:
    """Put back what was left changed on hosts (default: all of the file), and say for each what was done.

    Files of a host's own servers, kernel settings, delays, addresses, quotas, packet rules: whatever a run changed
    there and could not put back. What a run that is under way has changed is its own, and stays. It may be given again
    and again. Exit code 3: a host could not be reached, or something of it is left; what, and what to do, is said.
    """
    path, known = read_inventory(hosts_file)
    unknown = [alias for alias in aliases if alias not in known.hosts]
    if unknown:
        raise UsageError(f"{path} has no host {unknown[0]!r}", f"hosts: {', '.join(known.hosts)}")
    fine = [_restore(path, known, alias) for alias in aliases or known.hosts]
    if not all(fine):
        sys.exit(HostError.exit_code)


def _restore(path: Path, known: HostsFile, alias: str) -> bool:
    """Put back what is left on one host, and say it; False when something is left, or nothing can be known."""
    from loadbook.hosts import connect
    from loadbook.hosts.undo import restore

    try:
        # opening a host ends what a dead controller left running there
        host = connect(path, alias, RUN, hosts=known)
        try:
            done = restore(host, retry=True)
        finally:
            host.close()
    except HostError as error:
        echo(error.message, err=True)
        if error.hint:
            echo(f"  next: {error.hint}", err=True)
        return False
    echo(f"{alias}\t{'put back ' + '; '.join(map(clean, done)) if done else 'nothing was left'}")
    return True
