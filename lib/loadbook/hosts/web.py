"""One HTTP request from a host's own network: an SSH channel as the socket of the standard library's client."""

from __future__ import annotations

import http.client
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from loadbook.core.errors import HostError, HostTimeoutError, UnreachableError
from loadbook.hosts.host import HttpResponse
from loadbook.hosts.tls import TlsStream

if TYPE_CHECKING:
    from paramiko import Channel, Transport

MAX_BODY_BYTES = 16 << 20
_PROHIBITED = 1


class HttpUrl(NamedTuple):
    """What is asked for."""

    scheme: str
    address: str
    port: int
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.address}:{self.port}{self.path}"


def http_get(alias: str, transport: Transport, url: HttpUrl, timeout_s: float) -> HttpResponse:
    """Ask once, without redirects; the body is read whole.

    Raises
    ------
    UnreachableError : nothing listens there. HostTimeoutError : no answer in time.
    HostError : forwarding is switched off in sshd, the answer is no HTTP, or its body exceeds MAX_BODY_BYTES.
    """
    return request_over_channel(alias, open_channel(alias, transport, url, timeout_s), url, timeout_s)


def request_over_channel(alias: str, channel: Channel, url: HttpUrl, timeout_s: float) -> HttpResponse:
    """Ask over a channel that is open, and close it, at the latest after `timeout_s`; see `http_get`.

    A server that sends a byte now and then, or one interim answer after the other, keeps no reader waiting for more.
    """
    deadline, timer = time.monotonic() + timeout_s, threading.Timer(timeout_s, channel.close)
    timer.daemon = True
    timer.start()
    try:
        stream = TlsStream(channel, url.address) if url.scheme == "https" else channel
        stream.sendall(_request(url))
        # Not HTTPConnection: it closes its socket as soon as the headers are read, and a closed channel, unlike
        # a closed socket with an open makefile(), drops the body that has not arrived yet.
        response = http.client.HTTPResponse(stream, method="GET")  # type: ignore[arg-type] # it wants makefile() only
        response.begin()
        body = response.read(MAX_BODY_BYTES + 1)
        if time.monotonic() > deadline:  # what has arrived was cut off
            raise TimeoutError
        if len(body) > MAX_BODY_BYTES:
            raise HostError(alias, f"{url}: the body exceeds {MAX_BODY_BYTES} bytes")
        if response.length:  # asked for so many bytes, `read` says nothing of those that never came
            raise http.client.IncompleteRead(body, response.length)
        return HttpResponse(response.status, {k.lower(): v for k, v in response.getheaders()}, body)
    except TimeoutError as error:
        raise HostTimeoutError(alias, f"{url}: no answer within {timeout_s:g} s") from error
    except (http.client.HTTPException, OSError, EOFError, ValueError) as error:
        if time.monotonic() > deadline:
            raise HostTimeoutError(alias, f"{url}: no whole answer within {timeout_s:g} s") from error
        raise HostError(alias, f"{url}: no usable answer ({error or type(error).__name__})") from error
    finally:
        timer.cancel()
        channel.close()


def _request(url: HttpUrl) -> bytes:
    lines = (f"GET {url.path} HTTP/1.1", f"Host: {url.address}:{url.port}", "User-Agent: loadbook", "Connection: close")
    return "\r\n".join((*lines, "", "")).encode("ascii")


def open_channel(alias: str, transport: Transport, url: HttpUrl, timeout_s: float) -> Channel:
    """Open a TCP connection from the host; UnreachableError: nothing listens, HostError: sshd does not allow it."""
    from paramiko import ChannelException
    from paramiko.ssh_exception import SSHException

    try:
        channel = transport.open_channel("direct-tcpip", (url.address, url.port), ("127.0.0.1", 0), timeout=timeout_s)
    except ChannelException as error:
        if error.code == _PROHIBITED:
            hint = "set `AllowTcpForwarding yes` (or `local`) in that host's sshd_config"
            raise HostError(alias, f"sshd refuses to open a connection to {url}", hint) from error
        raise UnreachableError(alias, f"nothing answers at {url} ({error.text})") from error
    except (SSHException, EOFError) as error:
        raise HostTimeoutError(alias, f"{url}: no connection within {timeout_s:g} s ({error})") from error
    channel.settimeout(timeout_s)
    return channel
