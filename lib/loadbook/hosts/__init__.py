"""Floor 4: where? Hosts over SSH or from a record, the lab, facts and monitors.

How other floors use this one (every call is bounded in time; errors are HostError and its children)::

    host = connect(hosts_path, "driver", run_id)            # open RemoteHost; host.close() ends its jobs
    connect(..., lock_request=LockRequest(study, run_id))   # with the machine's lock; InUseError where another has it
    host.run(argv, timeout_s=5, check=True)                 # CommandResult(rc, stdout, stderr), bytes
    host.script(text, ["$1", "$2"], timeout_s=5)            # POSIX sh, one round trip, in host.workdir
    host.start(Job("t1-load", (warmup, load), lease_s=60))  # detached; outputs in <workdir>/jobs/t1-load/
    host.wait("t1-load", timeout_s=60, expect_s=10)         # rc; files stdout.2, stderr.2, times.2, rc.2 are whole
    host.fetch("jobs/t1-load/stdout.2", local, max_bytes=n) # sha256; the file `step` names the running step's pid
    host.reconnects, host.can_forward()

    lab.Lab.load(layout.lab, min_hosts={"web": 2}).up()     # .down() .status() .cut_link(alias, s) .restore_link(alias)
    guard.apply_changes(host, name, HostChanges(...), lease_s) # until host.stop(name), the lease's end or our death
    facts.gather_facts(host) -> {name: {"value", "kind"}}          facts.differences(before, after)
    monitors.sampler_job(name, interval_s=, limit_s=, processes=[(label, pid file)]) -> Job
    replay.ReplayHost(RecordedRun(folder), alias, ...)      # answers as the recorded host did; needs no host
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loadbook.core.errors import UsageError
from loadbook.hosts.inventory import HostsFile, read_hosts

if TYPE_CHECKING:
    from loadbook.hosts.host_lock import LockRequest
    from loadbook.hosts.remote import RemoteHost


def connect(
    hosts_path: Path, alias: str, run_id: str = "adhoc", *, hosts: HostsFile | None = None, lock_request: LockRequest | None = None
) -> RemoteHost:
    """Return the open host `alias` of a hosts file (`hosts` if it was read already); with `lock_request` it is ours alone.

    Jobs started through it end when it is closed, or seconds after our process died.
    """
    remote = remote_host(hosts_path, alias, run_id, hosts=hosts, lock_request=lock_request)
    remote.open()
    return remote


def remote_host(
    hosts_path: Path, alias: str, run_id: str = "adhoc", *, hosts: HostsFile | None = None, lock_request: LockRequest | None = None
) -> RemoteHost:
    """Return the host `alias` of a hosts file, not opened yet."""
    from loadbook.hosts.remote import RemoteHost
    from loadbook.hosts.ssh_config import resolve_endpoint
    from loadbook.records.layout import check_name

    hosts_file = hosts or read_hosts(hosts_path)
    if alias not in hosts_file.hosts:
        raise UsageError(f"{hosts_path} has no host {alias!r}", f"hosts: {', '.join(hosts_file.hosts)}")
    entry = hosts_file.hosts[alias]
    endpoint = resolve_endpoint(alias, entry, known_hosts_path(hosts_path, hosts_file))
    endpoint = replace(endpoint, lock_request=lock_request.with_lock_file(entry.lock)) if lock_request else endpoint
    return RemoteHost(endpoint, entry, check_name("run", run_id))


def known_hosts_path(hosts_path: Path, hosts: HostsFile) -> Path:
    """Return our own file of trusted keys: `known_hosts` of the hosts file, default beside it."""
    return hosts_path.absolute().parent / (hosts.known_hosts or "known_hosts")
