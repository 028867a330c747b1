"""One HTTP request sent from a host's own network, by Python's http.client over an SSH channel in place of a socket.

Python's ssl module can only wrap real sockets, so HTTPS bytes are copied between its engine and the channel here.
"""

from __future__ import annotations

import http.client
import io
import ssl
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from loadbook.core import clock
from loadbook.core.errors import HostError, HostTimeoutError, UnreachableError
from loadbook.core.text import host_port
from loadbook.hosts.host import HttpResponse

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from paramiko import Channel, Transport

T = TypeVar("T")
TLS_CHUNK_BYTES = 65_536


class TlsStream(io.RawIOBase):
    """An open TLS connection over `channel`, with only the methods that `http.client` calls.

    The server's certificate is not checked, because servers under test have self-signed ones (load generators do not
    check it either); the page's digest is compared instead. Raises OSError (ssl.SSLError) for a server without TLS.
    """

    def __init__(self, channel: Channel, name: str) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._channel, self._in, self._out = channel, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=name)
        self._run_engine(self._tls.do_handshake)

    def sendall(self, data: bytes) -> None:
        """Send all of `data`."""
        sent = 0
        while sent < len(data):
            rest = data[sent:]
            sent += self._run_engine(lambda rest=rest: self._tls.write(rest))  # type: ignore[misc]

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return the server's response as a file."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read into `buffer` and return how many bytes; 0 at the end."""
        view = memoryview(buffer).cast("B")
        try:
            return self._run_engine(lambda: self._tls.read(len(view), view))  # type: ignore[return-value]
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0

    def _run_engine(self, call: Callable[[], T]) -> T:
        """Call a method of the TLS engine, copying bytes between it and the channel, until it returns a result."""
        while True:
            needs_data = False
            try:
                result = call()
            except ssl.SSLWantReadError:
                needs_data = True
            if waiting := self._out.read():
                self._channel.sendall(waiting)
            if not needs_data:
                return result
            if data := self._channel.recv(TLS_CHUNK_BYTES):
                self._in.write(data)
            else:
                self._in.write_eof()


MAX_BODY_BYTES = 16 << 20
_PROHIBITED = 1
FORWARDING_HINT = "set `AllowTcpForwarding local` (or yes) in its sshd_config, without PermitOpen and DisableForwarding"


class HttpUrl(NamedTuple):
    """Scheme ("http", "https"), address, port and path (with the query) of a request."""

    scheme: str
    address: str
    port: int
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{host_port(self.address, self.port)}{self.path}"


def request_over_channel(alias: str, channel: Channel, url: HttpUrl, timeout_s: float) -> HttpResponse:
    """Send one GET request over an open channel and read the whole body; redirects are not followed.

    The channel is closed at the end, after `timeout_s` seconds at the latest, even if the server keeps sending single
    bytes or interim (1xx) responses.

    Raises
    ------
    HostTimeoutError : no complete response in time.
    HostError : the response is not HTTP, or its body exceeds MAX_BODY_BYTES.
    """
    deadline, timer = clock.monotonic() + timeout_s, threading.Timer(timeout_s, channel.close)
    timer.daemon = True
    timer.start()
    try:
        stream = TlsStream(channel, url.address) if url.scheme == "https" else channel
        header = f"Host: {host_port(url.address, url.port)}\r\nUser-Agent: loadbook\r\nConnection: close\r\n\r\n"
        stream.sendall(f"GET {url.path} HTTP/1.1\r\n{header}".encode("ascii"))
        # Not HTTPConnection: it closes its socket as soon as the headers are read, and a closed channel, unlike
        # a closed socket with an open makefile(), drops the body that has not arrived yet.
        response = http.client.HTTPResponse(stream, method="GET")  # type: ignore[arg-type] # it wants makefile() only
        response.begin()
        body = response.read(MAX_BODY_BYTES + 1)
        if clock.monotonic() > deadline:  # the timer closed the channel, so the body is incomplete
            raise TimeoutError
        if len(body) > MAX_BODY_BYTES:
            raise HostError(alias, f"{url}: the body exceeds {MAX_BODY_BYTES} bytes")
        if response.length:  # `read` with a size raises no error when the body ends early
            raise http.client.IncompleteRead(body, response.length)
        return HttpResponse(response.status, {k.lower(): v for k, v in response.getheaders()}, body)
    except TimeoutError as error:
        raise HostTimeoutError(alias, f"{url}: no answer within {timeout_s:g} s") from error
    except (http.client.HTTPException, OSError, EOFError, ValueError) as error:
        if clock.monotonic() > deadline:
            raise HostTimeoutError(alias, f"{url}: no whole answer within {timeout_s:g} s") from error
        raise HostError(alias, f"{url}: no usable answer ({error or type(error).__name__})") from error
    finally:
        timer.cancel()
        channel.close()


def open_channel(alias: str, transport: Transport, url: HttpUrl, timeout_s: float) -> Channel:
    """Open a TCP connection from the host to address and port of `url`.

    Raises
    ------
    UnreachableError : nothing listens there. HostTimeoutError : no connection within `timeout_s` seconds.
    HostError : sshd forbids it.
    """
    from paramiko import ChannelException
    from paramiko.ssh_exception import SSHException

    try:
        channel = transport.open_channel("direct-tcpip", (url.address, url.port), ("127.0.0.1", 0), timeout=timeout_s)
    except ChannelException as error:
        if error.code == _PROHIBITED:
            raise HostError(alias, f"sshd refuses to open a connection to {url}", FORWARDING_HINT) from error
        raise UnreachableError(alias, f"nothing answers at {url} ({error.text})") from error
    except (SSHException, EOFError) as error:
        raise HostTimeoutError(alias, f"{url}: no connection within {timeout_s:g} s ({error})") from error
    channel.settimeout(timeout_s)
    return channel
