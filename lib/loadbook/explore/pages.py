"""The pages that show what this kernel does, as its Jupyter server counts them.

Is anybody there to be told? A kernel that is busy answers nobody, and a page that comes back does not get
the output of a cell that began before. So a cell that only watches ends when the last page has gone or another came.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

EVERY_S, LIMIT_S = 0.9, 2.0


@dataclass
class Pages:
    """The pages connected to this kernel; `address` is what its server says of it, "" outside of a server."""

    address: str = ""
    token: str = field(default="", repr=False)
    _seen: int = 0
    _next: float = 0.0

    def changed(self) -> bool:
        """Tell whether the last page has gone or another has come; asked again within 0.9 s, it says no.

        Both: a browser may keep the page that it left, with its connection, for minutes.
        """
        if not self.address or time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + EVERY_S
        number = self.number()
        if number is None:
            return False
        before, self._seen = self._seen, number
        return before > 0 and (number == 0 or number > before)

    def number(self) -> int | None:
        """Return how many there are, None where the server does not say (GET /api/kernels/<id>, "connections")."""
        request = Request(self.address, headers={"Authorization": f"token {self.token}"})  # noqa: S310 - http only
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=LIMIT_S) as answer:
                return int(json.load(answer)["connections"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def pages() -> Pages:
    """Return the pages of this process's kernel: the server that started it tells its address in a file of its own."""
    if "ipykernel" not in sys.modules:
        return Pages()
    from ipykernel.connect import get_connection_file

    try:
        kernel = Path(get_connection_file())
        server = json.loads((kernel.parent / f"jpserver-{os.getppid()}.json").read_bytes())
        return of_server(server, kernel.stem.removeprefix("kernel-"))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return Pages()


def of_server(server: dict[str, str], kernel: str) -> Pages:
    """Return the pages of a kernel by what its server wrote of itself; those behind TLS or a socket are not asked."""
    address = server["url"]
    return Pages(f"{address}api/kernels/{kernel}", server["token"]) if address.startswith("http://") else Pages()
