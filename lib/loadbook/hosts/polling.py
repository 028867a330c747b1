"""A host's own monitors, asked from here over the SSH connection while a trial runs: a munin node, a node_exporter.

Each answer is kept as `traces.polled` reads it, with the times of question and answer by our clock.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from loadbook.core.errors import HostError
from loadbook.hosts import web
from loadbook.hosts.connection import talk_errors
from loadbook.hosts.host import Host
from loadbook.hosts.inventory import HostEntry
from loadbook.traces.munin import wanted
from loadbook.traces.polled import head_text, poll_text

if TYPE_CHECKING:
    from paramiko import Channel

ANSWER_S = 10.0
LINE_BYTES, MAX_LINES = 100_000, 10_000
MAX_BYTES = 100_000_000
# only what traces hold: the other collectors cost the host time
COLLECTORS = ("cpu", "meminfo", "netdev", "loadavg", "sockstat")
METRICS_PATH = "/metrics?" + "&".join(f"collect[]={name}" for name in COLLECTORS)


class Asker(Protocol):
    """One source on one host."""

    def ask(self) -> str:
        """Return one whole answer; HostError if there is none."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class MuninNode:
    """A munin node, on one connection: which plugins it has is asked once, their values with every `ask`."""

    def __init__(self, host: Host, port: int) -> None:
        self.alias = host.alias
        self._channel: Channel = host.connect(port, timeout_s=ANSWER_S)
        self._lines = self._channel.makefile("rb")
        with talk_errors(self.alias, "asking its munin node"):
            if not self._line().startswith("# munin node"):
                raise HostError(self.alias, f"port {port}: no munin node answers there")
            self._channel.sendall(b"list\n")
            self.plugins = wanted(self._line().split())
        if not self.plugins:
            raise HostError(self.alias, "its munin node has none of the plugins cpu, memory and if_*")

    def ask(self) -> str:
        """Return the values of the plugins, each below the line that asked for it."""
        with talk_errors(self.alias, "asking its munin node"):
            return "".join(self._fetch(plugin) for plugin in self.plugins)

    def _fetch(self, plugin: str) -> str:
        self._channel.sendall(f"fetch {plugin}\n".encode())
        lines = [f"> fetch {plugin}\n"]
        while lines[-1] != ".\n":
            lines.append(self._line())
            if len(lines) > MAX_LINES:
                raise HostError(self.alias, f"its munin node's answer on {plugin} has no end")
        return "".join(lines)

    def _line(self) -> str:
        line: bytes = self._lines.readline(LINE_BYTES)
        if not line.endswith(b"\n"):
            raise HostError(self.alias, "its munin node closed the connection, or sent no line")
        return line.decode("utf-8", "replace")

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


class NodeExporter:
    """A Prometheus node_exporter, one connection for each scrape as Prometheus may do it, too."""

    def __init__(self, host: Host, port: int) -> None:
        self._host, self._url = host, web.Url("http", "127.0.0.1", port, METRICS_PATH)
        self.ask()

    def ask(self) -> str:
        """Return one scrape."""
        channel = self._host.connect(self._url.port, timeout_s=ANSWER_S)
        answer = web.read(self._host.alias, channel, self._url, ANSWER_S)
        if answer.status != 200:
            raise HostError(self._host.alias, f"port {self._url.port}: node_exporter answers {answer.status}")
        return answer.body.decode("utf-8", "replace")

    def close(self) -> None:
        """Do nothing: nothing stays open."""


SOURCES: dict[str, tuple[Callable[[Host, int], Asker], Callable[[HostEntry], int], str]] = {
    "munin": (MuninNode, lambda entry: entry.munin_port, "apt-get install munin-node"),
    "node-exporter": (NodeExporter, lambda entry: entry.exporter_port, "apt-get install prometheus-node-exporter"),
}


def asker(host: Host, entry: HostEntry, source: str) -> Asker | None:
    """Connect to a source of a host; None where the hosts file says that it has none.

    Raises
    ------
    HostError : it does not answer; the hint says how to get it, or how to do without.
    """
    make, port_of, get = SOURCES[source]
    port = port_of(entry)
    try:
        return make(host, port) if port else None
    except HostError as error:
        key = "munin_port" if source == "munin" else "exporter_port"
        hint = f"{get}; another port, or 0 for none, is `{key}` of the host in the hosts file"
        raise HostError(host.alias, f"source {source} does not answer: {error.message}", hint) from error


class Poller:
    """Asks one source of one host every `interval_s` seconds, in a thread of its own, until it is stopped.

    A source that needs longer is asked again at the next multiple. `problem` says why it ended before that.
    """

    def __init__(self, source: str, asker: Asker, interval_s: float) -> None:
        self.source, self.interval_s, self.problem = source, interval_s, ""
        self._asker, self._enough = asker, threading.Event()
        self._kept = tempfile.SpooledTemporaryFile(max_size=1 << 20)  # noqa: SIM115  # closed by `stop`
        self._kept.write(head_text(source, interval_s).encode())
        self._thread = threading.Thread(target=self._poll, name=f"loadbook-{source}", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        first = time.monotonic()
        while not self._enough.is_set() and not self.problem:
            try:
                begun = time.time()
                answer = self._asker.ask()
                self._kept.write(poll_text(begun, time.time(), answer).encode())
            except (HostError, OSError, ValueError) as error:
                self.problem = error.message if isinstance(error, HostError) else str(error)
            if self._kept.tell() > MAX_BYTES:
                self.problem = f"its answers exceed {MAX_BYTES} bytes"
            self._enough.wait(self.interval_s - (time.monotonic() - first) % self.interval_s)

    def stop(self) -> bytes:
        """Stop asking and return what was kept; a second call returns nothing."""
        self._enough.set()
        self._thread.join(ANSWER_S + 1)
        if self._kept.closed:
            return b""
        if self._thread.is_alive():
            self.problem = f"no answer within {ANSWER_S:g} s"
        self._asker.close()
        self._kept.seek(0)
        with self._kept:
            return self._kept.read()
