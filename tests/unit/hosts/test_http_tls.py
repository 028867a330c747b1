"""TLS over a channel: a real TLS server at the other end of a socket pair, which has what a channel has."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Callable

import pytest

from loadbook.hosts.http import TlsStream
from tls_certificate import certificate

BODY = bytes(range(256)) * 4000  # more than one record, more than one chunk


@pytest.fixture(scope="module")
def server_side(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A context with a certificate that signs itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path_factory.mktemp("tls")))
    return context


def answered(act: Callable[[socket.socket], None]) -> tuple[socket.socket, threading.Thread]:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    thread = threading.Thread(target=act, args=(theirs,), daemon=True)
    thread.start()
    return ours, thread


@pytest.mark.parametrize("polite", [True, False])
def test_tls_page_is_read_completely_with_and_without_close_notify(server_side: ssl.SSLContext, polite: bool) -> None:
    requested = []

    def serve(raw: socket.socket) -> None:
        with server_side.wrap_socket(raw, server_side=True) as tls:
            requested.append(tls.recv(65536))
            tls.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + BODY)
            if polite:
                with contextlib.suppress(ssl.SSLError):  # the client need not say goodbye, too
                    tls.unwrap()

    ours, thread = answered(serve)
    stream = TlsStream(ours, "127.0.0.1")
    stream.sendall(b"GET / HTTP/1.1\r\n\r\n")
    response = http.client.HTTPResponse(stream, method="GET")  # type: ignore[arg-type]
    response.begin()
    assert (response.status, response.read(len(BODY) + 1)) == (200, BODY)
    ours.close()
    thread.join(10)
    assert requested == [b"GET / HTTP/1.1\r\n\r\n"]


@pytest.mark.parametrize("printed", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_tls_request_to_plain_server_fails_without_hanging(printed: bytes) -> None:
    def serve(raw: socket.socket) -> None:
        raw.recv(65536)
        raw.sendall(printed)
        raw.close()

    ours, thread = answered(serve)
    with pytest.raises(OSError, match=r"SSL|EOF"):
        TlsStream(ours, "127.0.0.1")
    thread.join(10)
