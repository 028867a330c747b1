"""`loadbook hosts trust|list` and `loadbook doctor`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadbook.core.errors import HostKeyError, LoadbookError, UsageError
from loadbook.records.layout import layout

if TYPE_CHECKING:
    from loadbook.design.study import Study
    from loadbook.hosts.checkup import Check, Program
    from loadbook.hosts.inventory import HostsFile
    from loadbook.hosts.ssh_config import Endpoint

hosts_option = click.option(
    "--hosts", "hosts_file", type=click.Path(path_type=Path), help="Hosts file; default: the lab's."
)


@click.group()
def hosts() -> None:
    """Trust host keys; list hosts."""


@hosts.command("list")
@hosts_option
def list_hosts(hosts_file: Path | None) -> None:
    """Show every host: alias, roles, login, address under load, and how many keys are trusted."""
    from loadbook.hosts.known_hosts import trusted_keys

    path, known = _read(hosts_file)
    for alias, end in _endpoints(path, known).items():
        entry = known.hosts[alias]
        keys = trusted_keys(end.known_hosts, end.key_name, end.port)
        trust = f"{len(keys)} trusted key{'s' if len(keys) != 1 else ''}" if keys else "NOT trusted"
        click.echo(f"{alias}\t{','.join(entry.roles)}\t{end.shown}\t{entry.address or end.host_name}\t{trust}")


@hosts.command()
@click.argument("aliases", nargs=-1)
@hosts_option
@click.option("--yes", is_flag=True, help="Accept what is shown without asking.")
@click.option("--replace", is_flag=True, help="Also accept keys that differ from the trusted ones.")
def trust(aliases: tuple[str, ...], hosts_file: Path | None, yes: bool, replace: bool) -> None:
    """Fetch the keys of hosts (default: all), show their fingerprints, and store those you accept.

    Compare the fingerprints with what the host itself prints: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub
    """
    from loadbook.hosts import trust_file
    from loadbook.hosts.trust import way_to

    path, known = _read(hosts_file)
    ends = _endpoints(path, known)
    unknown = [alias for alias in aliases if alias not in ends]
    if unknown:
        raise UsageError(f"{path} has no host {unknown[0]!r}", f"hosts: {', '.join(ends)}")
    done: dict[tuple[str, int], bool] = {}
    for alias in aliases or ends:
        for hop in way_to(ends[alias]):
            if (hop.key_name, hop.port) not in done:
                done[hop.key_name, hop.port] = _trust_one(trust_file(path, known), hop, yes, replace)
            if not done[hop.key_name, hop.port]:
                break  # what lies behind it cannot be asked yet
    if not all(done.values()):
        raise UsageError("nobody to ask here", "compare the fingerprints above, then: loadbook hosts trust --yes")


def _trust_one(file: Path, end: Endpoint, yes: bool, replace: bool) -> bool:
    """Show a host's keys and keep them if the user accepts; False where there is nobody to ask."""
    from loadbook.hosts.trust import offers, store

    shown = offers(end)
    for offer in shown:
        mark = {"trusted": "trusted", "new": "new", "changed": "CHANGED"}[offer.state]
        click.echo(f"{end.alias}\t{end.host_name}:{end.port}\t{mark}\t{offer.shown}")
    changed = [offer for offer in shown if offer.state == "changed"]
    if changed and not replace:
        raise HostKeyError(
            end.alias,
            f"{end.host_name}:{end.port} shows ANOTHER key than the trusted one: {changed[0].shown}",
            "someone may be in between; if the host was reinstalled: loadbook hosts trust --replace",
        )
    if all(offer.state == "trusted" for offer in shown):
        return True
    if not yes and not sys.stdin.isatty():
        return False
    if not yes:
        click.confirm(f"trust {end.alias} ({end.host_name})?", abort=True, err=True)
    store(file, end, [offer.key for offer in shown], replace=bool(changed))
    click.echo(f"{end.alias}: stored in {file}", err=True)
    return True


@click.command()
@hosts_option
def doctor(hosts_file: Path | None) -> None:
    """Show what is missing, here and on every host, and how to get it; exit code 3 if something needed is."""
    from loadbook.hosts.checkup import Check, check_hosts

    checks = [Check("here", "Python", "ok", platform.python_version())]
    checks.append(Check("here", "project", "ok", str(layout().root)))
    path, known = _read(hosts_file)
    checks.append(Check("here", "hosts file", "ok", f"{path}: {', '.join(known.hosts)}"))
    click.echo(f"asking {len(known.hosts)} hosts ...", err=True)
    studies = _studies(checks)
    checks += check_hosts(path, known, {alias: _wanted(entry.roles, studies) for alias, entry in known.hosts.items()})
    _print_checks(checks)
    missing = sum(check.state == "missing" for check in checks)
    if missing:
        click.echo(f"{missing} thing{'s' if missing != 1 else ''} missing", err=True)
        sys.exit(3)


def _studies(checks: list[Check]) -> list[Study]:
    """Return the project's studies; one that cannot be read becomes a doubt."""
    from loadbook.design.study_file import read_study
    from loadbook.hosts.checkup import Check

    found = []
    for path in sorted(layout().studies.glob("*.toml")):
        try:
            found.append(read_study(path))
        except LoadbookError as error:
            checks.append(Check("here", f"study {path.stem}", "doubt", error.message.splitlines()[0], "correct it"))
    return found


def _wanted(roles: Sequence[str], studies: Sequence[Study]) -> list[Program]:
    """Return the programs that a host's roles ask for: those that a study names are needed, other tools are not."""
    from loadbook.hosts.checkup import Program
    from loadbook.services import load_service
    from loadbook.services.build import programs
    from loadbook.tools import registry

    tools = {tool for study in studies if study.workload.role in roles for tool in study.tools_of(study.in_subset())}
    served = [role for study in studies for name, role in study.roles.items() if name in roles]
    services = sorted({role.service for role in served if role.service})
    known = [registry.load(name) for name in registry.names()] if tools else []
    specs = [load_service(name, [layout().studies / "services"]) for name in services]
    return [
        *(Program(tool.binary, tool.get, needed=tool.name in tools) for tool in known),
        *(Program(*program) for program in dict.fromkeys(p for spec in specs for p in programs(spec))),
    ]


def _print_checks(checks: Sequence[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "where", "what", "seen", "what to do", box=None, header_style="bold")
    marks = {"ok": Text("ok", "green"), "doubt": Text("?", "yellow"), "missing": Text("MISSING", "bold red")}
    for check in checks:
        table.add_row(marks[check.state], *map(Text, (check.where, check.what, check.seen, check.fix)))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _read(path: Path | None) -> tuple[Path, HostsFile]:
    from loadbook.hosts.inventory import read_hosts

    path = path or layout().lab / "hosts.toml"
    known = read_hosts(path)
    if known.replay is not None:
        raise UsageError(f"{path} plays a recorded run back: there is no host to log in to", "loadbook run --hosts")
    return path, known


def _endpoints(path: Path, known: HostsFile) -> dict[str, Endpoint]:
    from loadbook.hosts import trust_file
    from loadbook.hosts.ssh_config import resolve, user_config

    config = user_config()
    return {alias: resolve(alias, entry, trust_file(path, known), config) for alias, entry in known.hosts.items()}
