"""`loadbook hosts trust`: the keys that a host offers, compared with the trusted ones, and stored if accepted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import paramiko
from paramiko.ssh_exception import ChannelException, SSHException

from loadbook.core.errors import UnreachableError
from loadbook.hosts import keys as known_hosts
from loadbook.hosts.keys import Endpoint
from loadbook.hosts.ssh import RESPONSE_TIMEOUT_S, close_connection, jump_host_error, open_connection, tcp_socket
from loadbook.store.atomic import write_atomic

KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-512")


KeyStatus = Literal["trusted", "new", "changed", "revoked"]


class OfferedKey(NamedTuple):
    """A key that a host shows: trusted already, new, another one than the trusted key, or one that was revoked."""

    key: paramiko.PKey
    status: KeyStatus

    @property
    def description(self) -> str:
        """Return type and fingerprint, as ``ssh-keygen -lf`` on the host prints them."""
        return f"{self.key.get_name()} {known_hosts.fingerprint(self.key)}"


def login_chain(endpoint: Endpoint) -> list[Endpoint]:
    """Return the servers on the way to `endpoint`, in the order in which they must be trusted, `endpoint` last."""
    return [*(login_chain(endpoint.jump) if endpoint.jump else []), endpoint]


def check_offered_keys(endpoint: Endpoint) -> list[OfferedKey]:
    """Ask a host for its keys of every type, through its jump hosts (which must be trusted); nothing is run there."""
    offered = offered_keys(endpoint)
    trusted = known_hosts.trusted_keys(endpoint.known_hosts, endpoint.host_key_alias, endpoint.port)
    is_proven = any(key in trusted for key in offered)
    trusted_types = {key.get_name() for key in trusted}

    def status_of(key: paramiko.PKey) -> KeyStatus:
        if key in trusted:
            return "trusted"
        if (
            known_hosts.untrusted_key_status(endpoint.known_hosts, endpoint.host_key_alias, endpoint.port, key)
            == "revoked"
        ):
            return "revoked"
        return "changed" if key.get_name() in trusted_types or (trusted and not is_proven) else "new"

    return [OfferedKey(key, status_of(key)) for key in offered]


def offered_keys(endpoint: Endpoint) -> list[paramiko.PKey]:
    """Return the keys that a host shows, one per type that it has; UnreachableError if it shows none."""
    gateway = open_connection(endpoint.jump) if endpoint.jump else None
    try:
        keys = [_offered_key(endpoint, kind, gateway.transport if gateway else None) for kind in KEY_TYPES]
    except ChannelException as error:
        raise jump_host_error(endpoint, error) from error
    finally:
        if gateway:
            close_connection(gateway)
    offered = [key for key in keys if key is not None]
    if not offered:
        raise UnreachableError(
            endpoint.alias, f"{endpoint.host_name}:{endpoint.port} shows no host key", "is that an SSH server?"
        )
    return offered


def _offered_key(endpoint: Endpoint, kind: str, jump: paramiko.Transport | None) -> paramiko.PKey | None:
    """Agree on keys of one type only, and go no further than that."""
    if endpoint.proxy_command:
        channel = paramiko.ProxyCommand(endpoint.proxy_command)
    elif jump:
        channel = jump.open_channel(
            "direct-tcpip", (endpoint.host_name, endpoint.port), ("127.0.0.1", 0), timeout=RESPONSE_TIMEOUT_S
        )
    else:
        channel = tcp_socket(endpoint)
    transport = paramiko.Transport(channel)
    try:
        transport.banner_timeout = RESPONSE_TIMEOUT_S
        transport.get_security_options().key_types = [kind]
        transport.start_client(timeout=RESPONSE_TIMEOUT_S)
        return transport.get_remote_server_key()
    except (SSHException, EOFError, OSError):
        return None
    finally:
        transport.close()


def store_keys(path: Path, endpoint: Endpoint, keys: Sequence[paramiko.PKey], *, replace: bool) -> None:
    """Add keys to our own file, a plain line each; with `replace`, other keys of this host are dropped."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    new_lines = [known_hosts.format_line(key, endpoint.host_key_alias, endpoint.port) for key in keys]
    lines = [line for line in lines if line not in new_lines and not (replace and _is_key_line_of(line, endpoint))]
    write_atomic(path, "".join(f"{line}\n" for line in [*lines, *new_lines]).encode())


def _is_key_line_of(raw: str, endpoint: Endpoint) -> bool:
    line = known_hosts.parse_line(raw)
    return (
        line is not None
        and not line.marker
        and known_hosts.matches_host(line.names, endpoint.host_key_alias, endpoint.port)
    )
