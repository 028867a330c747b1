"""TLS over an SSH channel: the standard library's wants a real socket, so bytes are carried to and from it here."""

from __future__ import annotations

import io
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from paramiko import Channel

T = TypeVar("T")
TLS_CHUNK_BYTES = 65_536


class TlsStream(io.RawIOBase):
    """An open TLS connection over `channel`, as far as `http.client` needs one.

    The server's certificate is not checked, as no load generator checks it: servers under test sign their own, and the
    answer's digest says whether it is the right page. Raises OSError (ssl.SSLError) when the server does not speak TLS.
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
        """Return what the server says as a file to read from."""
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
        """Return what `call` of the TLS engine gives, carrying bytes to and from the channel as long as it wants."""
        while True:
            try:
                result = call()
            except ssl.SSLWantReadError:
                self._flush()
                self._receive()
                continue
            self._flush()
            return result

    def _flush(self) -> None:
        if waiting := self._out.read():
            self._channel.sendall(waiting)

    def _receive(self) -> None:
        if data := self._channel.recv(TLS_CHUNK_BYTES):
            self._in.write(data)
        else:
            self._in.write_eof()
