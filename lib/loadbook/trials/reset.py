"""Back to rest before a trial: wait, bounded, until what the last one left behind is gone (statistics.md 3.1)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from loadbook.core.errors import CommandError
from loadbook.design.study import ResetSettings
from loadbook.hosts.host import Host

REST_POLL_S = 0.25
STATE_TIMEOUT_S = 20.0
HOST_STATE_SCRIPT = """
time_wait=$(sed -n 's/^TCP:.* tw \\([0-9][0-9]*\\).*/\\1/p' /proc/net/sockstat)
read -r load1 load5 rest < /proc/loadavg
read -r open_files rest < /proc/sys/fs/file-nr
conntrack=$(cat /proc/sys/net/netfilter/nf_conntrack_count 2>/dev/null)
echo "time_wait ${time_wait:-0}"
echo "load1 $load1"
echo "open_files $open_files"
[ -z "$conntrack" ] || echo "conntrack $conntrack"
df -Pk . 2>/dev/null | tail -n 1 | { read -r device total used free rest && echo "free_bytes $((free * 1024))"; }
echo "boot_id $(cat /proc/sys/kernel/random/boot_id)"
"""


class HostState(NamedTuple):
    """A host's state when the wait ended (`waited_s`, `at_rest` 1 or 0, counts, bytes free) and the id of its boot."""

    state: dict[str, float]
    boot_id: str


def wait_for_rest(host: Host, rule: ResetSettings, pause: Callable[[float], object] = time.sleep) -> HostState:
    """Let `host` settle, wait until it is at rest by `rule` (at most `wait_s` seconds), return how it stands."""
    begun = time.monotonic()
    pause(rule.settle_s if host.live else 0)
    while True:
        rest = read_state(host)
        waited_s = time.monotonic() - begun
        at_rest = rest.state["time_wait"] <= rule.max_time_wait
        if at_rest or waited_s >= rule.wait_s:
            return HostState(rest.state | {"waited_s": round(waited_s, 3), "at_rest": float(at_rest)}, rest.boot_id)
        pause(REST_POLL_S)


def read_state(host: Host) -> HostState:
    """Return a host's state as it is now."""
    done = host.script(HOST_STATE_SCRIPT, timeout_s=STATE_TIMEOUT_S, check=True)
    try:
        fields = dict(line.split(" ", 1) for line in done.stdout.decode().splitlines())
        boot_id = fields.pop("boot_id")
        return HostState({name: float(text) for name, text in fields.items()}, boot_id)
    except (ValueError, KeyError) as error:
        raise CommandError(host.alias, f"its state under /proc cannot be read: {done.stdout[:200]!r}") from error
