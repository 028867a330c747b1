"""SSH connections with strict host keys, time limits and a watchdog for dead peers; trusting new host keys.

Fabric logs in, also through jump hosts (`gateway`), and opens SFTP. `Connection.run` is not used: it opens a channel
and three threads for each command, while one shell under a lease runs all of them. Fabric's defaults, which accept any
host key, wait forever for a dead peer, and lose 45 ms per command to Nagle's algorithm, are not used.
"""

from __future__ import annotations

import errno
import logging
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

import fabric
import paramiko
from paramiko.ssh_exception import AuthenticationException, BadHostKeyException, ChannelException, SSHException

from loadbook.core import clock
from loadbook.core.errors import HostError, HostKeyError, HostTimeoutError, LostError, UnreachableError
from loadbook.hosts.keys import (
    Endpoint,
    describe_key,
    lookup_name,
    matches_host,
    parse_line,
    trusted_keys,
    untrusted_key_status,
)
from loadbook.hosts.logins import KeyLogin, login_error
from loadbook.store.atomic import DiskFullError, write_atomic

CONNECT_TIMEOUT_S = 5.0
RESPONSE_TIMEOUT_S = 10.0
LOGIN_RETRY_S = 1.0
EARLY_CLOSE_S = 3.0
KEEPALIVE_INTERVAL_S = 2.0
KEEPALIVE_TIMEOUT_S = 5.0
_CONNECTION_LOST_ERRNOS = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EBADF, errno.ENOTCONN)
_HINT_HOST_UP = "is the host up, and sshd running there? (lab: loadbook lab up)"
_HINT_TRUST = "compare the fingerprint with the host's own, then: loadbook hosts trust [--hosts FILE]"

logging.getLogger("paramiko").addHandler(logging.NullHandler())


def open_connection(endpoint: Endpoint) -> fabric.Connection:
    """Log in to `endpoint` through its jump hosts, after verifying each host key, and start the watchdog.

    Raises
    ------
    HostKeyError : a host key is unknown, changed or revoked; no login was tried.
    AuthError : the login was refused. UnreachableError : no connection within the time limits.
    """
    gateway = open_connection(endpoint.jump) if endpoint.jump else None
    try:
        connection = _log_in(endpoint, gateway)
    except BaseException:
        if gateway:
            close_connection(gateway)
        raise
    threading.Thread(target=_watch, args=(connection.transport,), name="loadbook-watchdog", daemon=True).start()
    return connection


def _log_in(endpoint: Endpoint, gateway: fabric.Connection | None) -> fabric.Connection:
    """Log in; retry once if sshd closes the connection before its banner, as it does when many log in at once."""
    for attempt in (1, 2):
        login = KeyLogin(endpoint)
        connection = _new_connection(login, gateway)
        try:
            with _map_login_errors(login, connection.client):
                connection.open()
            return connection
        except _ClosedBySshdError:
            close_connection(connection)
            if attempt == 2:
                raise
            clock.sleep(LOGIN_RETRY_S)
    raise AssertionError("the second attempt returns or raises")


class _ClosedBySshdError(UnreachableError):
    """The server accepted the connection and closed it before sending its SSH banner."""


def close_connection(connection: fabric.Connection) -> None:
    """Close a connection and its jump connections, whatever their state."""
    with suppress(SSHException, OSError, EOFError):
        connection.close()
    if isinstance(connection.gateway, fabric.Connection):
        close_connection(connection.gateway)


def _new_connection(login: KeyLogin, gateway: fabric.Connection | None) -> fabric.Connection:
    endpoint = login.endpoint
    limits = dict.fromkeys(("banner_timeout", "auth_timeout", "channel_timeout"), RESPONSE_TIMEOUT_S)
    socket_option = {} if gateway or endpoint.proxy_command else {"sock": tcp_socket(endpoint)}
    connection = fabric.Connection(
        host=endpoint.host_name,
        user=endpoint.user,
        port=endpoint.port,
        config=fabric.Config(overrides={"load_ssh_configs": False}, lazy=True),
        gateway=gateway or endpoint.proxy_command,
        connect_timeout=int(RESPONSE_TIMEOUT_S),
        connect_kwargs={**limits, **socket_option, "auth_strategy": login},
    )
    connection.client.set_missing_host_key_policy(_RejectUnknownKeys(endpoint))
    name = lookup_name(endpoint.host_name, endpoint.port)
    for key in trusted_keys(endpoint.known_hosts, endpoint.host_key_alias, endpoint.port):
        connection.client.get_host_keys().add(name, key.get_name(), key)
    return connection


class _RejectUnknownKeys(paramiko.MissingHostKeyPolicy):
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        raise _untrusted_key_error(self._endpoint, key)


def tcp_socket(endpoint: Endpoint) -> socket.socket:
    """Return a connected socket with TCP_NODELAY and keepalive; UnreachableError after CONNECT_TIMEOUT_S seconds."""
    try:
        sock = socket.create_connection((endpoint.host_name, endpoint.port), timeout=CONNECT_TIMEOUT_S)
    except socket.gaierror as error:
        message = f"the name {endpoint.host_name!r} does not resolve ({error.strerror})"
        raise UnreachableError(endpoint.alias, message, "check ~/.ssh/config") from error
    except OSError as error:
        reason = error.strerror or f"no answer within {CONNECT_TIMEOUT_S:g} s"
        message = f"cannot connect to {endpoint.host_name}:{endpoint.port}: {reason}"
        raise UnreachableError(endpoint.alias, message, _HINT_HOST_UP) from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    linux_options = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
    for option, value in linux_options.items():
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


@contextmanager
def _map_login_errors(login: KeyLogin, client: paramiko.SSHClient) -> Iterator[None]:
    """Map exceptions of Fabric and Paramiko during a login to loadbook's errors."""
    endpoint = login.endpoint
    alias, started = endpoint.alias, clock.monotonic()
    try:
        yield
    except BadHostKeyException as error:
        offered_key, trusted_key = describe_key(error.key), describe_key(error.expected_key)
        message = f"{endpoint.host_name}:{endpoint.port} shows ANOTHER key than the trusted one: {offered_key}"
        hint = "someone may be in between; if the host was reinstalled: loadbook hosts trust --replace [--hosts FILE]"
        raise HostKeyError(alias, f"{message}, trusted is {trusted_key}", hint) from None
    except AuthenticationException as error:
        transport = client.get_transport()
        is_closed = transport is not None and not transport.is_active()
        raise login_error(endpoint, error, tries=login.tries, is_closed=is_closed) from error
    except ChannelException as error:
        raise jump_host_error(endpoint, error) from error
    except (SSHException, OSError, EOFError) as error:
        transport = client.get_transport()
        if transport is not None and transport.is_active() and transport.get_remote_server_key() is not None:
            # the host key was verified, so the failure is that none of our keys can be used
            raise login_error(endpoint, error) from error
        if "banner" in str(error) and clock.monotonic() - started < EARLY_CLOSE_S:
            limit = "MaxStartups in that host's sshd_config limits how many may at once"
            hint = f"is something else logging in there? {limit}"
            message = f"sshd at {endpoint.destination} closes connections at once"
            raise _ClosedBySshdError(alias, message, hint) from error
        raise UnreachableError(alias, f"no SSH login at {endpoint.destination}: {error}", _HINT_HOST_UP) from error


def jump_host_error(endpoint: Endpoint, error: ChannelException) -> UnreachableError:
    """Return the error for a jump host that cannot or may not forward connections to the host behind it."""
    jump_host = endpoint.jump.alias if endpoint.jump else "its jump host"
    hint = f"from {jump_host}: does the name lead there, is the host up, may {jump_host} reach that port?"
    if error.code == paramiko.common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED:
        hint = f"the sshd of {jump_host} forbids it: AllowTcpForwarding and PermitOpen in its sshd_config"
    message = f"{jump_host} makes no connection to {endpoint.host_name}:{endpoint.port}: {error.text}"
    return UnreachableError(endpoint.alias, message, hint)


def _untrusted_key_error(endpoint: Endpoint, key: paramiko.PKey) -> HostKeyError:
    """Return the error for a host whose key is not trusted: revoked, changed or unknown."""
    offered_key, address = describe_key(key), f"{endpoint.host_name}:{endpoint.port}"
    status = untrusted_key_status(endpoint, key)
    if status == "revoked":
        hint = "whoever has that key is not to be trusted; a new key of the host: loadbook hosts trust --replace"
        message = f"{address} shows a key that is REVOKED in known_hosts: {offered_key}"
        return HostKeyError(endpoint.alias, message, hint)
    note = ", and certificates (@cert-authority) cannot be checked here" if status == "authority" else ""
    return HostKeyError(endpoint.alias, f"{address} shows a key that is not trusted: {offered_key}{note}", _HINT_TRUST)


@contextmanager
def map_ssh_errors(alias: str, action: str) -> Iterator[None]:
    """Map exceptions of Paramiko on an open connection to LostError, HostTimeoutError or HostError.

    `action` is what the caller does, such as "reading FILE", with which the message begins.
    """
    try:
        yield
    except (HostError, DiskFullError):  # DiskFullError is about the controller's disk
        raise
    except FileNotFoundError as error:
        raise HostError(alias, f"{action}: there is no such file") from error
    except TimeoutError as error:
        raise HostTimeoutError(alias, f"{action}: no answer within {RESPONSE_TIMEOUT_S:g} s") from error
    except paramiko.ChannelException as error:
        hint = "loadbook needs 4 sessions at once: is MaxSessions in that host's sshd_config smaller?"
        raise HostError(alias, f"{action}: {error}", hint) from error
    except (SSHException, EOFError) as error:
        raise LostError(alias, f"{action}: the connection was lost ({error or 'end of file'})") from error
    except PermissionError as error:
        raise HostError(alias, f"{action}: permission denied") from error
    except OSError as error:
        is_closed = isinstance(error, ConnectionError) or str(error) == "Socket is closed"
        if is_closed or error.errno in _CONNECTION_LOST_ERRNOS:
            raise LostError(alias, f"{action}: the connection was lost ({error})") from error
        raise HostError(alias, f"{action}: {error}", "is a disk full? (sftp says only 'Failure')") from error


def _watch(transport: paramiko.Transport) -> None:
    """Send SSH keepalive requests until the connection ends; close the transport if one is not answered in time.

    TCP does not notice a stopped sshd, whose kernel still answers; closing the transport frees every waiting thread.
    """

    def probe(answered: threading.Event) -> None:
        with suppress(SSHException, OSError, EOFError):
            transport.global_request("keepalive@openssh.com", wait=True)
            answered.set()

    while transport.is_active():
        answered = threading.Event()
        threading.Thread(target=probe, args=(answered,), daemon=True).start()
        if not answered.wait(KEEPALIVE_TIMEOUT_S):
            break
        transport.join(KEEPALIVE_INTERVAL_S)
    with suppress(SSHException, OSError, EOFError):  # the connection to its jump host may be lost, too
        transport.close()


# the types of host keys that are requested from a host, one after the other
KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-512")

KeyStatus = Literal["trusted", "new", "changed", "revoked"]


class OfferedKey(NamedTuple):
    """A host key offered by a server, with its status: trusted, new, changed (not the trusted key) or revoked."""

    key: paramiko.PKey
    status: KeyStatus

    @property
    def description(self) -> str:
        """Return type and fingerprint of the key in the form that ``ssh-keygen -lf`` prints."""
        return describe_key(self.key)


def login_chain(endpoint: Endpoint) -> list[Endpoint]:
    """Return the jump hosts to `endpoint` in the order of connection, and `endpoint` last."""
    return [*(login_chain(endpoint.jump) if endpoint.jump else []), endpoint]


def check_offered_keys(endpoint: Endpoint) -> list[OfferedKey]:
    """Request a host's keys of every type, through jump hosts (which must be trusted), and return their status."""
    offered = offered_keys(endpoint)
    trusted = trusted_keys(endpoint.known_hosts, endpoint.host_key_alias, endpoint.port)
    is_proven = any(key in trusted for key in offered)
    trusted_types = {key.get_name() for key in trusted}

    def status_of(key: paramiko.PKey) -> KeyStatus:
        if key in trusted:
            return "trusted"
        if untrusted_key_status(endpoint, key) == "revoked":
            return "revoked"
        return "changed" if key.get_name() in trusted_types or (trusted and not is_proven) else "new"

    return [OfferedKey(key, status_of(key)) for key in offered]


def offered_keys(endpoint: Endpoint) -> list[paramiko.PKey]:
    """Return the keys that a host offers, at most one per key type; UnreachableError if it offers none."""
    gateway = open_connection(endpoint.jump) if endpoint.jump else None
    try:
        keys = [_offered_key(endpoint, key_type, gateway.transport if gateway else None) for key_type in KEY_TYPES]
    except ChannelException as error:
        raise jump_host_error(endpoint, error) from error
    finally:
        if gateway:
            close_connection(gateway)
    offered = [key for key in keys if key is not None]
    if not offered:
        message = f"{endpoint.host_name}:{endpoint.port} shows no host key"
        raise UnreachableError(endpoint.alias, message, "is that an SSH server?")
    return offered


def _offered_key(endpoint: Endpoint, key_type: str, jump: paramiko.Transport | None) -> paramiko.PKey | None:
    """Return the host's key of one type, read by a key exchange without login; None if it has no such key."""
    if endpoint.proxy_command:
        channel = paramiko.ProxyCommand(endpoint.proxy_command)
    elif jump:
        address = (endpoint.host_name, endpoint.port)
        channel = jump.open_channel("direct-tcpip", address, ("127.0.0.1", 0), timeout=RESPONSE_TIMEOUT_S)
    else:
        channel = tcp_socket(endpoint)
    transport = paramiko.Transport(channel)
    try:
        transport.banner_timeout = RESPONSE_TIMEOUT_S
        transport.get_security_options().key_types = [key_type]
        transport.start_client(timeout=RESPONSE_TIMEOUT_S)
        return transport.get_remote_server_key()
    except (SSHException, EOFError, OSError):
        return None
    finally:
        transport.close()


def store_keys(path: Path, endpoint: Endpoint, keys: Sequence[paramiko.PKey], *, replace: bool) -> None:
    """Add keys to loadbook's known_hosts file, one line each; with `replace`, remove other keys of this host."""
    name = lookup_name(endpoint.host_key_alias, endpoint.port)
    new_lines = [f"{name} {key.get_name()} {key.get_base64()}" for key in keys]

    def is_kept(text: str) -> bool:
        line = parse_line(text)
        is_key_of_host = line and not line.marker and matches_host(line.names, endpoint.host_key_alias, endpoint.port)
        return text not in new_lines and not (replace and is_key_of_host)

    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    write_atomic(path, "".join(f"{line}\n" for line in [*filter(is_kept, lines), *new_lines]).encode())
