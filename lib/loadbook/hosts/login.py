"""What we may log in with, and why it was not enough. Nobody is ever asked for anything: a run may have no terminal."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import paramiko
from paramiko.ssh_exception import AuthenticationException

from loadbook.core.errors import AuthError
from loadbook.hosts.ssh_config import Endpoint

AGENT_TIMEOUT_S = 1.0
_LIST_KEYS = struct.pack(">IB", 1, 11)  # SSH_AGENTC_REQUEST_IDENTITIES
_DEFAULT_KEY_FILES = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")


class NonInteractiveTransport(paramiko.Transport):
    """One that does not ask for passwords and codes on the terminal, as Paramiko does after a key was accepted."""

    def auth_interactive_dumb(self, *args: object, **options: object) -> list[str]:
        """Refuse."""
        raise paramiko.BadAuthenticationType("a password or code is wanted, too", ["password or code"])


def agent_responds() -> bool:
    """Tell whether there is an SSH agent that answers; Paramiko would wait for ever for one that hangs."""
    path = os.environ.get("SSH_AUTH_SOCK")
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


def agent_key(endpoint: Endpoint) -> paramiko.PKey | None:
    """Return what the agent holds of a locked key that alone may be used (identity_file, IdentitiesOnly)."""
    public_keys = [Path(f"{path}.pub") for path in _key_files(endpoint) if not endpoint.use_agent and _has_passphrase(path)]
    public_blobs = {path.read_text().split()[1] for path in public_keys if path.is_file()}
    if not public_blobs or not agent_responds():
        return None
    return next((key for key in paramiko.Agent().get_keys() if key.get_base64() in public_blobs), None)


def login_error(endpoint: Endpoint, error: Exception) -> AuthError:
    """Return what is to be said when no login was possible: what the host wants, which keys are locked, which agent."""
    hint = f"try: ssh -p {endpoint.port} {endpoint.user}@{endpoint.host_name}"
    locked = [path for path in _key_files(endpoint) if _has_passphrase(path)]
    if isinstance(error, paramiko.BadAuthenticationType):
        allowed = " or ".join(error.allowed_types)
        message = f"{endpoint.destination} wants {allowed}, which loadbook never types"
        return AuthError(endpoint.alias, message, f"let a key in: ssh-copy-id -p {endpoint.port} {endpoint.user}@{endpoint.host_name}")
    if locked:
        message = f"the key {locked[0]} for {endpoint.destination} is locked by a passphrase, {_agent_status(endpoint)}"
        return AuthError(endpoint.alias, message, f"unlock it for this session: {_ssh_add_command()} {locked[0]}")
    if isinstance(error, AuthenticationException) or _key_files(endpoint):
        # of a key of another type than the last that was tried, Paramiko only says that it is of another type
        reason = str(error) if isinstance(error, AuthenticationException) else f"{_key_files(endpoint)[0]} is not accepted"
        return AuthError(endpoint.alias, f"login as {endpoint.destination} refused: {reason}, {_agent_status(endpoint)}", hint)
    hint = f"name one in the hosts file (identity_file) or in ~/.ssh/config, or: {_ssh_add_command()} KEY"
    return AuthError(endpoint.alias, f"no key to log in with as {endpoint.destination}, {_agent_status(endpoint)}", hint)


def _key_files(endpoint: Endpoint) -> list[str]:
    paths = endpoint.identity_files or tuple(str(Path(name).expanduser()) for name in _DEFAULT_KEY_FILES)
    return [path for path in paths if Path(path).is_file()]


def _has_passphrase(path: str) -> bool:
    try:
        paramiko.PKey.from_path(path)
    except TypeError:  # what cryptography raises for a key that wants a passphrase
        return True
    except (ValueError, OSError, paramiko.SSHException):
        return False
    return False


def _ssh_add_command() -> str:
    """Return what gives a key to the agent; one is started where there is none."""
    return "ssh-add" if os.environ.get("SSH_AUTH_SOCK") else 'eval "$(ssh-agent)" && ssh-add'


def _agent_status(endpoint: Endpoint) -> str:
    path = os.environ.get("SSH_AUTH_SOCK")
    if not path:
        return "and there is no SSH agent (SSH_AUTH_SOCK is not set)"
    return "and the SSH agent has no key for it" if agent_responds() else f"and the SSH agent at {path} does not answer"
