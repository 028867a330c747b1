"""Ports for servers of tests: held from the choice to the end of the test, so that nobody else gets them.

The holding socket is bound and does not listen. Linux lets a server that sets SO_REUSEADDR (all do) bind and listen
beside it, once the holder has that option, too; others that ask for any free port do not get it, since the holder was
bound without the option.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_kept: list[socket.socket] = []
ANY_ADDRESS, FIRST, LAST = "127.0.0.1", 18_400, 32_000


def hold(port: int = 0, address: str = ANY_ADDRESS) -> socket.socket:
    """Return a socket that holds a port until it is closed; OSError if another program has it. 0: any free one."""
    holder = socket.socket()
    try:
        holder.bind((address, port))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        holder.close()
        raise
    return holder


def kept_port() -> int:
    """Return a port that nobody else gets until this process ends."""
    _kept.append(hold())
    return int(_kept[-1].getsockname()[1])


@contextmanager
def held_port() -> Iterator[int]:
    """Yield a port that nobody else gets while the block runs."""
    with hold() as holder:
        yield int(holder.getsockname()[1])


@contextmanager
def held_ports(count: int, *besides: int) -> Iterator[list[int]]:
    """Yield ports, each with those at the distances `besides` from it, as services with several ports need."""
    with ExitStack() as stack:
        found: list[int] = []
        for port in range(FIRST, LAST):
            with ExitStack() as holders:
                try:
                    for distance in (0, *besides):
                        holders.enter_context(hold(port + distance))
                except OSError:
                    continue
                stack.push(holders.pop_all())
                found.append(port)
            if len(found) == count:
                break
        assert len(found) == count, "too few ports are free"
        yield found
