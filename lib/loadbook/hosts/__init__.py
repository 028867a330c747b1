"""Floor 2: where? Hosts over SSH or from a record, the lab, facts and monitors.

``connect(hosts_path, alias, run_id) -> Host`` opens a host of a hosts file; ``close()`` it when done.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from loadbook.core.errors import UsageError
from loadbook.hosts.inventory import HostsFile, read_hosts

if TYPE_CHECKING:
    from loadbook.hosts.remote import RemoteHost


def connect(hosts_path: Path, alias: str, run_id: str = "adhoc", *, hosts: HostsFile | None = None) -> RemoteHost:
    """Return the open host `alias` of a hosts file (`hosts` if it was read already).

    Jobs started through it end when it is closed, or seconds after our process died.
    """
    remote = remote_host(hosts_path, alias, run_id, hosts=hosts)
    remote.open()
    return remote


def remote_host(hosts_path: Path, alias: str, run_id: str = "adhoc", *, hosts: HostsFile | None = None) -> RemoteHost:
    """Return the host `alias` of a hosts file, not opened yet."""
    from loadbook.hosts.remote import RemoteHost
    from loadbook.hosts.ssh_config import resolve
    from loadbook.records.layout import check_name

    known = hosts or read_hosts(hosts_path)
    if alias not in known.hosts:
        raise UsageError(f"{hosts_path} has no host {alias!r}", f"hosts: {', '.join(known.hosts)}")
    entry = known.hosts[alias]
    return RemoteHost(resolve(alias, entry, trust_file(hosts_path, known)), entry, check_name("run", run_id))


def trust_file(hosts_path: Path, hosts: HostsFile) -> Path:
    """Return our own file of trusted keys: `known_hosts` of the hosts file, default beside it."""
    return hosts_path.absolute().parent / (hosts.known_hosts or "known_hosts")
