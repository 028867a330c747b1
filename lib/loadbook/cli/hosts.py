"""`loadbook hosts trust|list`, and the hosts file that a command means."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadbook.cli.say import echo
from loadbook.core.errors import HostKeyError, UsageError
from loadbook.records.layout import project_layout

if TYPE_CHECKING:
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

    path, known = read_inventory(hosts_file)
    for alias, end in _endpoints(path, known).items():
        entry = known.hosts[alias]
        keys = trusted_keys(end.known_hosts, end.host_key_alias, end.port)
        trust = f"{len(keys)} trusted key{'s' if len(keys) != 1 else ''}" if keys else "NOT trusted"
        echo(f"{alias}\t{','.join(entry.roles)}\t{end.destination}\t{entry.address or end.host_name}\t{trust}")


@hosts.command()
@click.argument("aliases", nargs=-1)
@hosts_option
@click.option("--yes", is_flag=True, help="Accept what is shown without asking.")
@click.option("--replace", is_flag=True, help="Also accept keys that differ from the trusted ones.")
def trust(aliases: tuple[str, ...], hosts_file: Path | None, yes: bool, replace: bool) -> None:
    """Fetch the keys of hosts (default: all), show their fingerprints, and store those you accept.

    Compare the fingerprints with what the host itself prints: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub
    """
    from loadbook.hosts import known_hosts_path
    from loadbook.hosts.trust import login_chain

    path, known = read_inventory(hosts_file)
    ends = _endpoints(path, known)
    unknown = [alias for alias in aliases if alias not in ends]
    if unknown:
        raise UsageError(f"{path} has no host {unknown[0]!r}", f"hosts: {', '.join(ends)}")
    done: dict[tuple[str, int], bool] = {}
    for alias in aliases or ends:
        for hop in login_chain(ends[alias]):
            if (hop.host_key_alias, hop.port) not in done:
                done[hop.host_key_alias, hop.port] = _trust_one(known_hosts_path(path, known), hop, yes, replace)
            if not done[hop.host_key_alias, hop.port]:
                break  # what lies behind it cannot be asked yet
    if not all(done.values()):
        again = "loadbook hosts trust --yes" + (f" --hosts {hosts_file}" if hosts_file else "")
        raise UsageError("nobody to ask here", f"compare the fingerprints above, then: {again}")


def _trust_one(file: Path, end: Endpoint, yes: bool, replace: bool) -> bool:
    """Show a host's keys and keep them if the user accepts; False where there is nobody to ask."""
    from loadbook.hosts.trust import check_offered_keys, store_keys

    shown = check_offered_keys(end)
    for offer in shown:
        mark = offer.status if offer.status in ("trusted", "new") else offer.status.upper()
        echo(f"{end.alias}\t{end.host_name}:{end.port}\t{mark}\t{offer.description}")
    if revoked := [offer for offer in shown if offer.status == "revoked"]:
        where = f"{end.host_name}:{end.port}"
        hint = "whoever has that key is not to be trusted: give the host new keys, or take its @revoked line out"
        raise HostKeyError(end.alias, f"{where} shows a key that is REVOKED: {revoked[0].description}", hint)
    changed = [offer for offer in shown if offer.status == "changed"]
    if changed and not replace:
        raise HostKeyError(
            end.alias,
            f"{end.host_name}:{end.port} shows ANOTHER key than the trusted one: {changed[0].description}",
            "someone may be in between; if the host was reinstalled: loadbook hosts trust --replace",
        )
    if all(offer.status == "trusted" for offer in shown):
        return True
    if not yes and not sys.stdin.isatty():
        return False
    if not yes:
        click.confirm(f"trust {end.alias} ({end.host_name})?", abort=True, err=True)
    store_keys(file, end, [offer.key for offer in shown], replace=bool(changed))
    echo(f"{end.alias}: stored in {file}", err=True)
    return True


def read_inventory(path: Path | None) -> tuple[Path, HostsFile]:
    """Return the hosts file that is meant, the lab's by default, and what stands in it."""
    from loadbook.hosts.inventory import read_hosts

    if path is None and not (project_layout().lab / "hosts.toml").exists():
        raise UsageError("there is no lab on this machine yet", "loadbook lab up; for hosts of your own: --hosts FILE")
    path = path or project_layout().lab / "hosts.toml"
    known = read_hosts(path)
    if known.replay is not None:
        raise UsageError(f"{path} plays a recorded run back: there is no host to log in to", "loadbook run --hosts")
    return path, known


def _endpoints(path: Path, known: HostsFile) -> dict[str, Endpoint]:
    from loadbook.hosts import known_hosts_path
    from loadbook.hosts.ssh_config import resolve_endpoint, read_user_config

    config = read_user_config()
    return {alias: resolve_endpoint(alias, entry, known_hosts_path(path, known), config) for alias, entry in known.hosts.items()}
