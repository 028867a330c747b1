"""Monitors of a host during a trial: the sampler, and the host's own munin node or node_exporter.

The sampler is a job that needs nothing installed. The host's own monitors are polled over the SSH connection; each
answer is stored as `host_metrics.base` reads it, with the times of request and answer by the controller's clock.
"""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import TYPE_CHECKING, Protocol

from loadbook.core.errors import HostError
from loadbook.host_metrics.polled import format_poll, header_line, usable_plugins
from loadbook.hosts import http
from loadbook.hosts.host import Host, Job
from loadbook.hosts.inventory import HostEntry
from loadbook.hosts.ssh import map_ssh_errors
from loadbook.store.paths import check_name

if TYPE_CHECKING:
    from paramiko import Channel


def sampler_job(name: str, *, interval_s: float, limit_s: float, processes: Iterable[tuple[str, str]] = ()) -> Job:
    """Return the job that samples for at most `limit_s` seconds; `host_metrics.sampler` parses its ``stdout.1``.

    `processes` pairs a label with a file (absolute, or relative to the job's folder) that holds a process id, such as
    ``../<job>/step``, which names the process that a job's current step runs; its children are watched as well.
    Several may have one label.
    """
    text = files("loadbook.hosts").joinpath("sampler.sh").read_text(encoding="utf-8")
    count = math.ceil(limit_s / interval_s) + 1
    process_args = [f"{check_name('process', label)}={path}" for label, path in processes]
    step = ("/bin/sh", "-c", text, "sampler", f"{interval_s:g}", str(count), *process_args)
    return Job(name, (step,), lease_s=limit_s * 1.5 + 5)


MONITOR_TIMEOUT_S = 10.0
MAX_LINE_BYTES, MAX_LINES = 100_000, 10_000
MAX_BYTES = 100_000_000
# only what traces hold: the other collectors cost the host time
COLLECTORS = ("cpu", "meminfo", "netdev", "loadavg", "sockstat")
METRICS_PATH = "/metrics?" + "&".join(f"collect[]={name}" for name in COLLECTORS)


class MonitorClient(Protocol):
    """One source on one host."""

    def query(self) -> str:
        """Return one whole answer; HostError if there is none."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class MuninClient:
    """A munin node, on one connection: which plugins it has is asked once, their values with every `query`."""

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
        """Return the values of the plugins, each below the line that asked for it."""
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
        """Close the connection."""
        self._channel.close()


class NodeExporterClient:
    """A Prometheus node_exporter, one connection for each scrape as Prometheus may do it, too."""

    def __init__(self, host: Host, port: int) -> None:
        self._host, self._url = host, http.HttpUrl("http", "127.0.0.1", port, METRICS_PATH)
        self.query()

    def query(self) -> str:
        """Return one scrape."""
        channel = self._host.connect(self._url.port, timeout_s=MONITOR_TIMEOUT_S)
        answer = http.request_over_channel(self._host.alias, channel, self._url, MONITOR_TIMEOUT_S)
        if answer.status != 200:
            raise HostError(self._host.alias, f"port {self._url.port}: node_exporter answers {answer.status}")
        return answer.body.decode("utf-8", "replace")

    def close(self) -> None:
        """Do nothing: nothing stays open."""


SOURCES: dict[str, tuple[Callable[[Host, int], MonitorClient], Callable[[HostEntry], int], str]] = {
    "munin": (MuninClient, lambda entry: entry.munin_port, "apt-get install munin-node"),
    "node-exporter": (
        NodeExporterClient,
        lambda entry: entry.exporter_port,
        "apt-get install prometheus-node-exporter",
    ),
}


def connect_monitor(host: Host, entry: HostEntry, source: str) -> MonitorClient | None:
    """Connect to a monitor of a host; None if the hosts file disables it.

    Raises
    ------
    HostError : it does not answer; the hint says how to get it, or how to do without.
    """
    connect, port_of, install_hint = SOURCES[source]
    port = port_of(entry)
    try:
        return connect(host, port) if port else None
    except HostError as error:
        key = "munin_port" if source == "munin" else "exporter_port"
        hint = f"{install_hint}; another port, or 0 for none, is `{key}` of the host in the hosts file"
        raise HostError(host.alias, f"source {source} does not answer: {error.message}", hint) from error


class Poller:
    """Asks one source of one host every `interval_s` seconds, in a thread of its own, until it is stopped.

    A source that needs longer is asked again at the next multiple. `problem` says why it ended before that.
    """

    def __init__(self, source: str, client: MonitorClient, interval_s: float) -> None:
        self.source, self.interval_s, self.problem = source, interval_s, ""
        self._client, self._stop_event = client, threading.Event()
        self._buffer = tempfile.SpooledTemporaryFile(max_size=1 << 20)  # noqa: SIM115  # closed by `stop`
        self._buffer.write(header_line(source, interval_s).encode())
        self._thread = threading.Thread(target=self._poll, name=f"loadbook-{source}", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        start = time.monotonic()
        while not self._stop_event.is_set() and not self.problem:
            try:
                asked_at = time.time()
                answer = self._client.query()
                self._buffer.write(format_poll(asked_at, time.time(), answer).encode())
            except (HostError, OSError, ValueError) as error:
                self.problem = error.message if isinstance(error, HostError) else str(error)
            if self._buffer.tell() > MAX_BYTES:
                self.problem = f"its answers exceed {MAX_BYTES} bytes"
            self._stop_event.wait(self.interval_s - (time.monotonic() - start) % self.interval_s)

    def stop(self) -> bytes:
        """Stop polling and return the recorded answers; a second call returns nothing."""
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
