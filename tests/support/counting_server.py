"""A web server that counts who asks it, which shows that a page asks nobody."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Counter:
    """A server that counts who asks; `of` gives texts of the corpus its address."""

    def __init__(self) -> None:
        requested: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requested.append(self.path)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self.requested = requested
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    def of(self, text: str) -> str:
        return text.replace("127.0.0.1:9", f"127.0.0.1:{self.server.server_port}")


@contextlib.contextmanager
def counting() -> Iterator[Counter]:
    """Yield a counter, and stop its server."""
    made = Counter()
    try:
        yield made
    finally:
        made.server.shutdown()
