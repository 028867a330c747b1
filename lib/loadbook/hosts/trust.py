"""`loadbook hosts trust`: ask a host for its keys, compare with what is trusted, keep what the user has accepted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import paramiko
from paramiko.ssh_exception import ChannelException, SSHException

from loadbook.core.errors import UnreachableError
from loadbook.hosts import known_hosts
from loadbook.hosts.connection import ANSWER_S, close_connection, not_through, open_connection, tcp_socket
from loadbook.hosts.ssh_config import Endpoint
from loadbook.records.atomic import write_atomic

KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
)


State = Literal["trusted", "new", "changed", "revoked"]


class Offer(NamedTuple):
    """A key that a host shows: trusted already, new, another one than the trusted key, or one that was revoked."""

    key: paramiko.PKey
    state: State

    @property
    def shown(self) -> str:
        """Return type and fingerprint, as ``ssh-keygen -lf`` on the host prints them."""
        return f"{self.key.get_name()} {known_hosts.fingerprint(self.key)}"


def way_to(end: Endpoint) -> list[Endpoint]:
    """Return the servers on the way to `end`, in the order in which they must be trusted, `end` last."""
    return [*(way_to(end.jump) if end.jump else []), end]


def offers(end: Endpoint) -> list[Offer]:
    """Ask a host for its keys of every type, through its jump hosts (which must be trusted); nothing is run there."""
    shown = offered_keys(end)
    trusted = known_hosts.trusted_keys(end.known_hosts, end.key_name, end.port)
    proven = any(key in trusted for key in shown)
    kinds = {key.get_name() for key in trusted}

    def state(key: paramiko.PKey) -> State:
        if key in trusted:
            return "trusted"
        if known_hosts.standing(end.known_hosts, end.key_name, end.port, key) == "revoked":
            return "revoked"
        return "changed" if key.get_name() in kinds or (trusted and not proven) else "new"

    return [Offer(key, state(key)) for key in shown]


def offered_keys(end: Endpoint) -> list[paramiko.PKey]:
    """Return the keys that a host shows, one per type that it has; UnreachableError if it shows none."""
    gateway = open_connection(end.jump) if end.jump else None
    try:
        keys = [_key_of(end, kind, gateway.transport if gateway else None) for kind in KEY_TYPES]
    except ChannelException as error:
        raise not_through(end, error) from error
    finally:
        if gateway:
            close_connection(gateway)
    found = [key for key in keys if key is not None]
    if not found:
        raise UnreachableError(end.alias, f"{end.host_name}:{end.port} shows no host key", "is that an SSH server?")
    return found


def _key_of(end: Endpoint, kind: str, jump: paramiko.Transport | None) -> paramiko.PKey | None:
    """Agree on keys of one type only, and go no further than that."""
    if end.proxy_command:
        way = paramiko.ProxyCommand(end.proxy_command)
    elif jump:
        way = jump.open_channel("direct-tcpip", (end.host_name, end.port), ("127.0.0.1", 0), timeout=ANSWER_S)
    else:
        way = tcp_socket(end)
    transport = paramiko.Transport(way)
    try:
        transport.banner_timeout = ANSWER_S
        transport.get_security_options().key_types = [kind]
        transport.start_client(timeout=ANSWER_S)
        return transport.get_remote_server_key()
    except (SSHException, EOFError, OSError):
        return None
    finally:
        transport.close()


def store(path: Path, end: Endpoint, accepted: Sequence[paramiko.PKey], *, replace: bool) -> None:
    """Add keys to our own file, a plain line each; with `replace`, other keys of this host are dropped."""
    kept = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    fresh = [known_hosts.line_for(key, end.key_name, end.port) for key in accepted]
    kept = [line for line in kept if line not in fresh and not (replace and _is_of(line, end))]
    write_atomic(path, "".join(f"{line}\n" for line in [*kept, *fresh]).encode())


def _is_of(raw: str, end: Endpoint) -> bool:
    line = known_hosts.parse_line(raw)
    return line is not None and not line.marker and known_hosts.matches(line.names, end.key_name, end.port)
