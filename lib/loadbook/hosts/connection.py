"""One SSH connection by Fabric, made safe: strict host keys, bounded waits, a watchdog for dead peers.

Fabric alone accepts any host key, waits for ever for a peer that has died, and pays 45 ms per command to Nagle
(reliability.md section 1). Everything that undoes this is here.
"""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import fabric
import paramiko
from paramiko.ssh_exception import (
    AuthenticationException,
    BadHostKeyException,
    ChannelException,
    SSHException,
)

from loadbook.core.errors import HostError, HostKeyError, HostTimeoutError, LostError, UnreachableError
from loadbook.hosts.known_hosts import fingerprint, lookup_name, standing, trusted_keys
from loadbook.hosts.login import Transport, agent_answers, agent_key, refused
from loadbook.hosts.ssh_config import Endpoint
from loadbook.records.atomic import NoRoomError

CONNECT_S = 5.0
ANSWER_S = 10.0
RETRY_S = 1.0
AT_ONCE_S = 3.0
PROBE_EVERY_S = 2.0
PROBE_DEADLINE_S = 5.0

logging.getLogger("paramiko").addHandler(logging.NullHandler())


def open_connection(end: Endpoint) -> fabric.Connection:
    """Log in to `end`, through its jump hosts, and start the watchdog; every key on the way is proven first.

    Raises
    ------
    HostKeyError : a key is unknown, changed or revoked; nothing was run and no login tried.
    AuthError, UnreachableError : the login was refused; no connection within the limits.
    """
    gateway = open_connection(end.jump) if end.jump else None
    try:
        connection = _logged_in(end, gateway)
    except BaseException:
        if gateway:
            close_connection(gateway)
        raise
    Watchdog(connection.transport).start()
    return connection


def _logged_in(end: Endpoint, gateway: fabric.Connection | None) -> fabric.Connection:
    """Log in, once more where sshd closes the connection before it greets, as it does when many log in at once."""
    for attempt in (1, 2):
        connection = _prepared(end, gateway)
        try:
            with _login_errors(end, connection.client):
                connection.open()
            return connection
        except _TurnedAwayError:
            close_connection(connection)
            if attempt == 2:
                raise
            time.sleep(RETRY_S)
    raise AssertionError("the second attempt returns or raises")


class _TurnedAwayError(UnreachableError):
    """The server is there, and closed the connection without a word."""


def close_connection(connection: fabric.Connection) -> None:
    """Close a connection and those on the way to it, in whatever state they are."""
    with suppress(SSHException, OSError, EOFError):
        connection.close()
    if isinstance(connection.gateway, fabric.Connection):
        close_connection(connection.gateway)


def _prepared(end: Endpoint, gateway: fabric.Connection | None) -> fabric.Connection:
    limits = {"banner_timeout": ANSWER_S, "auth_timeout": ANSWER_S, "channel_timeout": ANSWER_S}
    identity = {
        "key_filename": list(end.identity_files),
        "allow_agent": end.use_agent and agent_answers(),
        "look_for_keys": not end.identity_files,
        "pkey": agent_key(end),
        "transport_factory": Transport,
    }
    way = {} if gateway or end.proxy_command else {"sock": tcp_socket(end)}
    connection = fabric.Connection(
        host=end.host_name,
        user=end.user,
        port=end.port,
        config=fabric.Config(overrides={"load_ssh_configs": False}, lazy=True),
        gateway=gateway or end.proxy_command,
        connect_timeout=int(ANSWER_S),
        connect_kwargs=limits | identity | way,
    )
    connection.client.set_missing_host_key_policy(_Refuse())
    name = lookup_name(end.host_name, end.port)
    for key in trusted_keys(end.known_hosts, end.key_name, end.port):
        connection.client.get_host_keys().add(name, key.get_name(), key)
    return connection


class _UnknownKeyError(Exception):
    def __init__(self, key: paramiko.PKey) -> None:
        super().__init__("unknown host key")
        self.key = key


class _Refuse(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        raise _UnknownKeyError(key)


def tcp_socket(end: Endpoint) -> socket.socket:
    """Connect within CONNECT_S, without Nagle, with a kernel that notices a cut line."""
    try:
        sock = socket.create_connection((end.host_name, end.port), timeout=CONNECT_S)
    except socket.gaierror as error:
        raise UnreachableError(
            end.alias, f"the name {end.host_name!r} does not resolve ({error.strerror})", "check ~/.ssh/config"
        ) from error
    except OSError as error:
        what = error.strerror or f"no answer within {CONNECT_S:g} s"
        raise UnreachableError(end.alias, f"cannot connect to {end.host_name}:{end.port}: {what}", _UP) from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    linux = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
    for option, value in linux.items():
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


_FULL = "is something else logging in there? MaxStartups in that host's sshd_config limits how many may at once"
_UP = "is the host up, and sshd running there? (lab: loadbook lab up)"


@contextmanager
def _login_errors(end: Endpoint, client: paramiko.SSHClient) -> Iterator[None]:
    """Turn what Fabric and Paramiko raise during a login into our errors."""
    begun = time.monotonic()
    try:
        yield
    except _UnknownKeyError as error:
        raise _not_trusted(end, error.key) from None
    except BadHostKeyException as error:
        shown = f"{error.key.get_name()} {fingerprint(error.key)}"
        known = f"{error.expected_key.get_name()} {fingerprint(error.expected_key)}"
        raise HostKeyError(
            end.alias,
            f"{end.host_name}:{end.port} shows ANOTHER key than the trusted one: {shown}, trusted is {known}",
            "someone may be in between; if the host was reinstalled: loadbook hosts trust --replace [--hosts FILE]",
        ) from None
    except AuthenticationException as error:
        raise refused(end, error) from error
    except ChannelException as error:
        raise not_through(end, error) from error
    except (SSHException, OSError, EOFError) as error:
        if _is_open(client):  # the host is proven and waits for a login: it is our keys that cannot be used
            raise refused(end, error) from error
        if "banner" in str(error) and time.monotonic() - begun < AT_ONCE_S:
            raise _TurnedAwayError(end.alias, f"sshd at {end.shown} closes connections at once", _FULL) from error
        raise UnreachableError(end.alias, f"no SSH login at {end.shown}: {error}", _UP) from error


def not_through(end: Endpoint, error: ChannelException) -> UnreachableError:
    """Return what to say of a jump host that makes no connection to the host behind it."""
    gate = end.jump.alias if end.jump else "its jump host"
    hint = f"from {gate}: does the name lead there, is the host up, may {gate} reach that port?"
    if error.code == paramiko.common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED:
        hint = f"the sshd of {gate} forbids it: AllowTcpForwarding and PermitOpen in its sshd_config"
    return UnreachableError(end.alias, f"{gate} makes no connection to {end.host_name}:{end.port}: {error.text}", hint)


def _is_open(client: paramiko.SSHClient) -> bool:
    transport = client.get_transport()
    return transport is not None and transport.is_active() and transport.get_remote_server_key() is not None


def _not_trusted(end: Endpoint, key: paramiko.PKey) -> HostKeyError:
    """Return the error of a host whose key is not among the trusted ones, by what known_hosts files say of it."""
    shown, where = f"{key.get_name()} {fingerprint(key)}", f"{end.host_name}:{end.port}"
    said = standing(end.known_hosts, end.key_name, end.port, key)
    if said == "revoked":
        hint = "whoever has that key is not to be trusted; a new key of the host: loadbook hosts trust --replace"
        return HostKeyError(end.alias, f"{where} shows a key that is REVOKED in known_hosts: {shown}", hint)
    by = ", and certificates (@cert-authority) cannot be checked here" if said == "authority" else ""
    return HostKeyError(end.alias, f"{where} shows a key that is not trusted: {shown}{by}", _TRUST)


_TRUST = "compare the fingerprint with the host's own, then: loadbook hosts trust [--hosts FILE]"


@contextmanager
def talk_errors(alias: str, doing: str) -> Iterator[None]:
    """Turn what Paramiko raises on an open connection into LostError, HostTimeoutError or HostError."""
    try:
        yield
    except (HostError, NoRoomError):  # the full disk is ours
        raise
    except FileNotFoundError as error:
        raise HostError(alias, f"{doing}: there is no such file") from error
    except TimeoutError as error:
        raise HostTimeoutError(alias, f"{doing}: no answer within {ANSWER_S:g} s") from error
    except paramiko.ChannelException as error:
        hint = "loadbook needs 4 sessions at once: is MaxSessions in that host's sshd_config smaller?"
        raise HostError(alias, f"{doing}: {error}", hint) from error
    except (SSHException, EOFError) as error:
        raise LostError(alias, f"{doing}: the connection was lost ({error or 'end of file'})") from error
    except PermissionError as error:
        raise HostError(alias, f"{doing}: permission denied") from error
    except OSError as error:
        if isinstance(error, ConnectionError) or error.errno in _GONE or str(error) == "Socket is closed":
            raise LostError(alias, f"{doing}: the connection was lost ({error})") from error
        raise HostError(alias, f"{doing}: {error}", "is a disk full? (sftp says only 'Failure')") from error


_GONE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EBADF, errno.ENOTCONN)


class Watchdog(threading.Thread):
    """Asks the peer for a sign of life and closes the transport of one that gives none.

    TCP cannot see a stopped sshd, whose kernel still answers; closing the transport frees every waiting thread.
    """

    def __init__(self, transport: paramiko.Transport) -> None:
        super().__init__(name="loadbook-watchdog", daemon=True)
        self._transport = transport

    def run(self) -> None:
        """Probe until the connection is gone."""
        while self._transport.is_active():
            answered = threading.Event()
            threading.Thread(target=self._probe, args=(answered,), daemon=True).start()
            if not answered.wait(PROBE_DEADLINE_S):
                break
            self._transport.join(PROBE_EVERY_S)
        with suppress(SSHException, OSError, EOFError):  # its jump host may have gone at the same time
            self._transport.close()

    def _probe(self, answered: threading.Event) -> None:
        try:
            self._transport.global_request("keepalive@openssh.com", wait=True)
        except (SSHException, OSError, EOFError):
            return
        answered.set()
