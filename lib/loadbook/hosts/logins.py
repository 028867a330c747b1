"""The keys of a login: files and the SSH agent, in the order in which they are tried; errors of a refused login.

A login never prompts, since a run may have no terminal; the error of a refused login lists the credentials that were
tried. Servers close the connection after some keys (MaxAuthTries), so those that the user names precede the agent's.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    load_ssh_public_identity,
)
from paramiko.agent import AgentSSH
from paramiko.auth_strategy import AuthStrategy
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import AuthenticationException, SSHException

from loadbook.core.errors import AuthError
from loadbook.hosts.keys import Endpoint
from loadbook.hosts.ssh_config import DEFAULT_KEY_FILES, home_folder

AGENT_TIMEOUT_S = 1.0
SIGNATURE_TIMEOUT_S = 10.0  # an agent may ask its user
_LIST_KEYS = struct.pack(">IB", 1, 11)  # SSH_AGENTC_REQUEST_IDENTITIES
_PUBLIC_KEY_TYPES = ("ssh-", "ecdsa-", "sk-")


class KeyLogin(AuthStrategy):
    """A login by the keys of an endpoint; it types no passwords and no codes. `tries`: number of keys tried."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(ssh_config=None)
        self.endpoint = endpoint
        self.tries = 0

    def authenticate(self, transport: paramiko.Transport) -> None:
        """Try one key after the other; raise the exception of the last one if none is accepted."""
        failure = SSHException("there is no key")
        with closing(login_keys(self.endpoint)) as keys:
            for key in keys:
                self.tries += 1
                try:
                    further_methods = transport.auth_publickey(self.endpoint.user, key)
                except paramiko.BadAuthenticationType:  # this server accepts no keys
                    raise
                except SSHException as error:
                    failure = error
                    if not transport.is_active():
                        break
                    continue
                if not further_methods:
                    return
                if "publickey" not in further_methods:
                    raise paramiko.BadAuthenticationType("the key is accepted, but does not suffice", further_methods)
        raise failure


class _Agent(AgentSSH):
    """The SSH agent of an endpoint, which is asked for its keys only if they are needed."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._is_asked = False

    def get_keys(self) -> Sequence[paramiko.PKey]:
        if not self._is_asked:
            self._is_asked = True
            with suppress(OSError, SSHException):
                if agent_responds(self._path):
                    connection = socket.socket(socket.AF_UNIX)
                    connection.settimeout(SIGNATURE_TIMEOUT_S)
                    connection.connect(self._path)
                    self._connect(connection)
        return super().get_keys()

    def close(self) -> None:
        self._close()


def agent_path(endpoint: Endpoint) -> str:
    """Return the socket of the SSH agent: IdentityAgent of the user's configuration, or SSH_AUTH_SOCK; "" for none."""
    return os.environ.get("SSH_AUTH_SOCK", "") if endpoint.agent_socket is None else endpoint.agent_socket


def agent_responds(path: str) -> bool:
    """Return whether an SSH agent answers within a time limit; Paramiko would wait forever for one that hangs."""
    if not path:
        return False
    try:
        with socket.socket(socket.AF_UNIX) as agent:
            agent.settimeout(AGENT_TIMEOUT_S)
            agent.connect(path)
            agent.sendall(_LIST_KEYS)
            return bool(agent.recv(1))
    except OSError:
        return False


def login_keys(endpoint: Endpoint) -> Generator[paramiko.PKey, None, None]:
    """Yield each key for a login, first with its certificates and then without.

    A key and its certificates are one object that is changed in between; so use each before the next is taken.
    """
    files = [*endpoint.certificate_files, *(f"{path}-cert.pub" for path in _key_paths(endpoint))]
    certified = [(path, _certified_key(path)) for path in dict.fromkeys(files)]
    seen = set()
    with closing(_Agent(agent_path(endpoint))) as agent:
        for key in _keys(endpoint, agent):
            identity = (key.get_name(), key.get_base64())
            if identity in seen:
                continue
            seen.add(identity)
            for path in [path for path, public_key in certified if public_key == identity]:
                key.load_certificate(path)
                yield key
            key.public_blob = None
            yield key


def _keys(endpoint: Endpoint, agent: _Agent) -> Iterator[paramiko.PKey]:
    """Yield the keys that the user names before the agent's other keys; ssh's default files after these."""
    if endpoint.identity_files is None and endpoint.use_agent:
        yield from agent.get_keys()
    for path in _key_paths(endpoint):
        if key := _read_key(path):
            yield key
        elif public_key := _read_public_key(path):
            yield from (key for key in agent.get_keys() if key.get_base64() == public_key)
    if endpoint.identity_files is not None and endpoint.use_agent:
        yield from agent.get_keys()


def _key_paths(endpoint: Endpoint) -> Sequence[str]:
    if endpoint.identity_files is not None:
        return endpoint.identity_files
    return [name.replace("~", str(home_folder()), 1) for name in DEFAULT_KEY_FILES]


def _read_key(path: str) -> paramiko.PKey | None:
    """Return the private key in a file; None if there is none, or if it needs a passphrase.

    `PKey.from_path` would also read the certificate beside it, and refuse the key if that is broken.
    """
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        # TypeError: raised by `cryptography` for a key that needs a passphrase
        with suppress(TypeError, ValueError, OSError, SSHException, UnsupportedAlgorithm):
            return kind.from_private_key_file(path)
    return None


def _read_public_key(path: str) -> str | None:
    """Return the public key in a file, or in the .pub file beside it, in base64."""
    for candidate in (path, f"{path}.pub"):
        with suppress(OSError):
            fields = Path(candidate).read_text(encoding="utf-8", errors="replace").split(maxsplit=2)
            if len(fields) > 1 and fields[0].startswith(_PUBLIC_KEY_TYPES):
                return fields[1]
    return None


def _certified_key(path: str) -> tuple[str, str] | None:
    """Return type and public key (base64) for which a file holds a certificate; None if it holds none."""
    try:
        identity = load_ssh_public_identity(Path(path).read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm):
        return None
    if not isinstance(identity, SSHCertificate):
        return None
    kind, public_key = identity.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode().split()
    return kind, public_key


def login_error(endpoint: Endpoint, error: Exception, *, tries: int = 0, is_closed: bool = False) -> AuthError:
    """Return the error of a failed login, with the methods that the host wants, locked keys and the agent's state.

    Parameters
    ----------
    tries : number of keys that were tried.
    is_closed : whether the host closed the connection after the last one.
    """
    alias, destination = endpoint.alias, endpoint.destination
    ssh_args = f"-p {endpoint.port} {endpoint.user}@{endpoint.host_name}"
    if isinstance(error, paramiko.BadAuthenticationType):
        message = f"{destination} wants {' or '.join(error.allowed_types)}, which loadbook never types"
        return AuthError(alias, message, f"let a key in: ssh-copy-id {ssh_args}")
    if is_closed and tries > 1:
        message = f"{destination} closed the connection after {tries} keys (MaxAuthTries of its sshd)"
        return AuthError(alias, message, "name the right key in ~/.ssh/config: IdentityFile, and IdentitiesOnly yes")
    # command that also starts an agent if there is none
    ssh_add = "ssh-add" if agent_path(endpoint) else 'eval "$(ssh-agent)" && ssh-add'
    key_files, agent = [path for path in _key_paths(endpoint) if Path(path).is_file()], _agent_status(endpoint)
    if locked := next(filter(_has_passphrase, key_files), None):
        message = f"the key {locked} for {destination} is locked by a passphrase, {agent}"
        return AuthError(alias, message, f"unlock it for this session: {ssh_add} {locked}")
    if isinstance(error, AuthenticationException) or key_files:
        # Paramiko's message is about the type of the last key tried, which says nothing about the other keys
        reason = str(error) if isinstance(error, AuthenticationException) else f"{key_files[0]} is not accepted"
        return AuthError(alias, f"login as {destination} refused: {reason}, {agent}", f"try: ssh {ssh_args}")
    hint = f"name one in the hosts file (identity_file) or in ~/.ssh/config, or: {ssh_add} KEY"
    return AuthError(alias, f"no key to log in with as {destination}, {agent}", hint)


def _has_passphrase(path: str) -> bool:
    try:
        paramiko.PKey.from_path(path)
    except TypeError:  # raised by `cryptography` for a key that needs a passphrase
        return True
    except (ValueError, OSError, SSHException, UnknownKeyType, UnsupportedAlgorithm):
        return False
    return False


def _agent_status(endpoint: Endpoint) -> str:
    path = agent_path(endpoint)
    if not path:
        reason = "SSH_AUTH_SOCK is not set" if endpoint.agent_socket is None else "IdentityAgent of the configuration"
        return f"and there is no SSH agent ({reason})"
    return (
        "and the SSH agent has no key for it"
        if agent_responds(path)
        else f"and the SSH agent at {path} does not answer"
    )
