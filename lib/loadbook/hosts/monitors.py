"""Facts about a host (no name, address or id), and monitors during a trial: sampler, munin node, node_exporter.

The sampler is a shell script run as a job; it needs nothing installed. The host's own monitors are polled over SSH;
each answer is stored in the format of `host_metrics.base`, with request and answer times by the controller's clock.
"""

from __future__ import annotations

import math
import re
import tempfile
import threading
from collections.abc import Iterable
from importlib.resources import files
from typing import TYPE_CHECKING, Protocol

from loadbook.core import clock
from loadbook.core.errors import HostError
from loadbook.host_metrics.polled import format_poll, header_line, usable_plugins
from loadbook.hosts import http
from loadbook.hosts.host import Host, Job
from loadbook.hosts.inventory import HostEntry
from loadbook.hosts.jobs import sampler_files
from loadbook.hosts.shell import cpu_list
from loadbook.hosts.ssh import map_ssh_errors
from loadbook.store.paths import check_name

if TYPE_CHECKING:
    from paramiko import Channel

Fact = dict[str, str | float | int | None]

# INFO facts may change (only shown), TOLERANCE facts may vary a little; all other facts must not change
INFO_FACTS = frozenset({"cpu_mhz", "memory_available_b", "load_1min"})
TOLERANCE_FACTS = frozenset({"memory_total_b", "swap_total_b"})

SYSCTLS = (
    "net/core/somaxconn", "net/core/netdev_max_backlog", "net/core/rmem_max", "net/core/wmem_max",
    "net/core/default_qdisc", "net/core/busy_poll",
    "net/ipv4/ip_local_port_range", "net/ipv4/tcp_tw_reuse", "net/ipv4/tcp_fin_timeout",
    "net/ipv4/tcp_max_syn_backlog", "net/ipv4/tcp_max_tw_buckets", "net/ipv4/tcp_syncookies",
    "net/ipv4/tcp_congestion_control", "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_slow_start_after_idle", "net/ipv4/tcp_fastopen", "net/ipv4/tcp_keepalive_time",
    "net/netfilter/nf_conntrack_max", "vm/swappiness", "fs/file-max", "fs/nr_open", "kernel/pid_max",
)  # fmt: skip
_FACT_NAMES = (
    "kernel", "arch", "os", "cpu_model", "cpu_mhz", "virtual", "cpus_online", "cpus_allowed", "cpu_quota",
    "cpu_governor", "cpu_no_turbo", "cpu_smt", "clock_source", "transparent_hugepage", "memory_total",
    "memory_available", "swap_total", "boot_id", "machine", "load", "proc_stat", "nofile_soft", "nofile_hard",
)  # fmt: skip


def gather_facts(host: Host) -> dict[str, Fact]:
    """Read all facts about a host in one round trip: name -> {"value", "kind"}; a missing fact has the value None.

    In compared trials, facts of kind "identity" must be equal and "tolerance" nearly equal; "info" may differ.
    """
    scripts = files("loadbook.hosts")
    quotas, facts = (scripts.joinpath(name).read_text(encoding="utf-8") for name in ("cgroups.sh", "facts.sh"))
    # replays of earlier runs find the script by its first line
    first, _, rest = facts.partition("\n")
    text = f"{first}\ncgroup_quotas() (\n{quotas})\n{rest}"
    return parse_facts(host.script(text, SYSCTLS, timeout_s=15, check=True).stdout)


def parse_facts(output: bytes) -> dict[str, Fact]:
    """Parse the output of facts.sh (lines of name, tab, value) into the result of `gather_facts`."""
    lines = output.decode("utf-8", "replace").splitlines()
    raw = dict(line.split("\t", 1) for line in lines if "\t" in line)
    parsed = dict(_finish_fact(name, raw.get(name)) for name in (*_FACT_NAMES, *SYSCTLS))
    online = raw.get("cpus_online")
    parsed["cores"] = {"value": len(cpu_list(online)) if online else None, "kind": "identity"}
    return parsed


def _finish_fact(name: str, text: str | None) -> tuple[str, Fact]:
    """Return a fact with its final name, and its value converted to the final unit and type."""
    value: str | float | int | None = " ".join(text.split()) if text else None
    if name in SYSCTLS:
        name = name.replace("/", ".")
    elif name in ("memory_total", "memory_available", "swap_total"):
        kilobytes = re.fullmatch(r"(\d+) kB", str(value))
        name, value = f"{name}_b", int(kilobytes[1]) * 1024 if kilobytes else None
    elif name == "cpu_quota" and (milli := re.fullmatch(r"\d{1,12}", str(value))):
        value = int(milli[0]) / 1000
    elif name == "load":
        name, value = "load_1min", value and str(value).split()[0]
    elif name == "machine":
        value = value and str(value)[:16]
    elif name == "transparent_hugepage":
        value = value and re.sub(r".*\[(\w+)\].*", r"\1", str(value))
    is_text = not isinstance(value, str) or name in ("boot_id", "machine", "kernel", "cpus_online", "cpus_allowed")
    if not is_text and re.fullmatch(r"-?\d+", str(value)):
        value = int(str(value))
    elif not is_text and re.fullmatch(r"-?\d+\.\d+", str(value)):
        value = float(str(value))
    kind = "info" if name in INFO_FACTS else "tolerance" if name in TOLERANCE_FACTS else "identity"
    return name, {"value": value, "kind": kind}


def sampler_job(name: str, *, interval_s: float, limit_s: float, processes: Iterable[tuple[str, str]] = ()) -> Job:
    """Return the job that samples every `interval_s` seconds for at most `limit_s` seconds.

    `host_metrics.sampler` parses its ``stdout.1``.
    `processes` holds pairs of a label and a file (absolute, or relative to the job's folder) with a process id, such
    as ``../<job>/step`` for the process of a job's current step. Child processes are sampled, too. Several pairs may
    have the same label.
    """
    text = files("loadbook.hosts").joinpath("sampler.sh").read_text(encoding="utf-8")
    count = math.ceil(limit_s / interval_s) + 1
    process_args = [f"{check_name('process', label)}={path}" for label, path in processes]
    step = ("/bin/sh", "-c", text, "sampler", f"{interval_s:g}", str(count), *process_args)
    return Job(name, (step,), lease_s=limit_s * 1.5 + 5, files=sampler_files())


MONITOR_TIMEOUT_S = 10.0
MAX_LINE_BYTES, MAX_LINES = 100_000, 10_000
MAX_BYTES = 100_000_000
# only the collectors whose metrics are used; the others would cost the host CPU time
COLLECTORS = ("cpu", "meminfo", "netdev", "loadavg", "sockstat")
METRICS_PATH = "/metrics?" + "&".join(f"collect[]={name}" for name in COLLECTORS)


class MonitorClient(Protocol):
    """A connection to one monitor (munin node or node_exporter) on one host."""

    def query(self) -> str:
        """Query the monitor once and return its complete answer; HostError if there is no answer."""

    def close(self) -> None:
        """Close the connection if it is kept open between queries; by default, do nothing."""
        return


class _MuninClient(MonitorClient):
    """A munin node on one connection: its plugins are listed once, their values are read by every `query`.

    An answer holds the values of all plugins, each below the line of its request.
    """

    def __init__(self, host: Host, port: int) -> None:
        self.alias = host.alias
        self._channel: Channel = host.connect(port, timeout_s=MONITOR_TIMEOUT_S)
        self._lines = self._channel.makefile("rb")
        with map_ssh_errors(self.alias, "asking its munin node"):
            if not self._read_line().startswith("# munin node"):
                raise HostError(self.alias, f"port {port}: no munin node answers there")
            self._channel.sendall(b"list\n")
            self.plugins = usable_plugins(self._read_line().split())
        if not self.plugins:
            raise HostError(self.alias, "its munin node has none of the plugins cpu, memory and if_*")

    def query(self) -> str:
        with map_ssh_errors(self.alias, "asking its munin node"):
            return "".join(self._fetch_plugin(plugin) for plugin in self.plugins)

    def _fetch_plugin(self, plugin: str) -> str:
        self._channel.sendall(f"fetch {plugin}\n".encode())
        lines = [f"> fetch {plugin}\n"]
        while lines[-1] != ".\n":
            lines.append(self._read_line())
            if len(lines) > MAX_LINES:
                raise HostError(self.alias, f"its munin node's answer on {plugin} has no end")
        return "".join(lines)

    def _read_line(self) -> str:
        line: bytes = self._lines.readline(MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise HostError(self.alias, "its munin node closed the connection, or sent no line")
        return line.decode("utf-8", "replace")

    def close(self) -> None:
        self._channel.close()


class _NodeExporterClient(MonitorClient):
    """A Prometheus node_exporter, scraped over a new connection each time."""

    def __init__(self, host: Host, port: int) -> None:
        self._host, self._url = host, http.HttpUrl("http", "127.0.0.1", port, METRICS_PATH)
        self.query()

    def query(self) -> str:
        channel = self._host.connect(self._url.port, timeout_s=MONITOR_TIMEOUT_S)
        answer = http.request_over_channel(self._host.alias, channel, self._url, MONITOR_TIMEOUT_S)
        if answer.status != 200:
            raise HostError(self._host.alias, f"port {self._url.port}: node_exporter answers {answer.status}")
        return answer.body.decode("utf-8", "replace")


def connect_monitor(host: Host, entry: HostEntry, source: str) -> MonitorClient | None:
    """Connect to the monitor "munin" or "node-exporter" of a host; None if the hosts file disables it (port 0).

    Raises
    ------
    HostError : the monitor does not answer; the hint explains how to install or disable it.
    """
    is_munin = source == "munin"
    port, key = (entry.munin_port, "munin_port") if is_munin else (entry.exporter_port, "exporter_port")
    if not port:
        return None
    try:
        return _MuninClient(host, port) if is_munin else _NodeExporterClient(host, port)
    except HostError as error:
        package = "munin-node" if is_munin else "prometheus-node-exporter"
        hint = f"apt-get install {package}; another port, or 0 for none, is `{key}` of the host in the hosts file"
        raise HostError(host.alias, f"source {source} does not answer: {error.message}", hint) from error


class Poller:
    """Queries one monitor of one host every `interval_s` seconds, in a thread of its own, until it is stopped.

    If an answer takes longer than that, the next query is sent at the next multiple of `interval_s`. `problem` is the
    reason if polling ended before `stop`, else "".
    """

    def __init__(self, source: str, client: MonitorClient, interval_s: float) -> None:
        self.source, self.interval_s, self.problem = source, interval_s, ""
        self._client, self._stop_event = client, threading.Event()
        self._buffer = tempfile.SpooledTemporaryFile(max_size=1 << 20)  # noqa: SIM115  # closed by `stop`
        self._buffer.write(header_line(source, interval_s).encode())
        self._thread = threading.Thread(target=self._poll, name=f"loadbook-{source}", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        start = clock.monotonic()
        while not self._stop_event.is_set() and not self.problem:
            try:
                asked_at = clock.now()
                answer = self._client.query()
                self._buffer.write(format_poll(asked_at, clock.now(), answer).encode())
            except (HostError, OSError, ValueError) as error:
                self.problem = error.message if isinstance(error, HostError) else str(error)
            if self._buffer.tell() > MAX_BYTES:
                self.problem = f"its answers exceed {MAX_BYTES} bytes"
            clock.wait(self._stop_event, self.interval_s - (clock.monotonic() - start) % self.interval_s)

    def stop(self) -> bytes:
        """Stop polling and return the recorded answers (format of `host_metrics.base`); empty at a second call."""
        self._stop_event.set()
        self._thread.join(MONITOR_TIMEOUT_S + 1)
        if self._buffer.closed:
            return b""
        if self._thread.is_alive():
            self.problem = f"no answer within {MONITOR_TIMEOUT_S:g} s"
        self._client.close()
        self._buffer.seek(0)
        with self._buffer:
            return self._buffer.read()
