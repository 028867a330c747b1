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

AGENT_S = 1.0
_LIST_KEYS = struct.pack(">IB", 1, 11)  # SSH_AGENTC_REQUEST_IDENTITIES
_DEFAULTS = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")


class Transport(paramiko.Transport):
    """One that does not ask for passwords and codes on the terminal, as Paramiko does after a key was accepted."""

    def auth_interactive_dumb(self, *args: object, **options: object) -> list[str]:
        """Refuse."""
        raise paramiko.BadAuthenticationType("a password or code is wanted, too", ["password or code"])


def agent_answers() -> bool:
    """Tell whether there is an SSH agent that answers; Paramiko would wait for ever for one that hangs."""
    path = os.environ.get("SSH_AUTH_SOCK")
    if not path:
        return False
    try:
        with socket.socket(socket.AF_UNIX) as agent:
            agent.settimeout(AGENT_S)
            agent.connect(path)
            agent.sendall(_LIST_KEYS)
            return bool(agent.recv(1))
    except OSError:
        return False


def agent_key(end: Endpoint) -> paramiko.PKey | None:
    """Return what the agent holds of a locked key that alone may be used (identity_file, IdentitiesOnly)."""
    locked = [Path(f"{path}.pub") for path in _keys(end) if not end.use_agent and _is_locked(path)]
    wanted = {path.read_text().split()[1] for path in locked if path.is_file()}
    if not wanted or not agent_answers():
        return None
    return next((key for key in paramiko.Agent().get_keys() if key.get_base64() in wanted), None)


def refused(end: Endpoint, error: Exception) -> AuthError:
    """Return what is to be said when no login was possible: what the host wants, which keys are locked, which agent."""
    try_it = f"try: ssh -p {end.port} {end.user}@{end.host_name}"
    locked = [path for path in _keys(end) if _is_locked(path)]
    if isinstance(error, paramiko.BadAuthenticationType):
        wanted = " or ".join(error.allowed_types)
        what = f"{end.shown} wants {wanted}, which loadbook never types"
        return AuthError(end.alias, what, f"let a key in: ssh-copy-id -p {end.port} {end.user}@{end.host_name}")
    if locked:
        what = f"the key {locked[0]} for {end.shown} is locked by a passphrase, {_of_agent(end)}"
        return AuthError(end.alias, what, f"unlock it for this session: {_to_agent()} {locked[0]}")
    if isinstance(error, AuthenticationException) or _keys(end):
        # of a key of another type than the last that was tried, Paramiko only says that it is of another type
        why = str(error) if isinstance(error, AuthenticationException) else f"{_keys(end)[0]} is not accepted"
        return AuthError(end.alias, f"login as {end.shown} refused: {why}, {_of_agent(end)}", try_it)
    hint = f"name one in the hosts file (identity_file) or in ~/.ssh/config, or: {_to_agent()} KEY"
    return AuthError(end.alias, f"no key to log in with as {end.shown}, {_of_agent(end)}", hint)


def _keys(end: Endpoint) -> list[str]:
    paths = end.identity_files or tuple(str(Path(name).expanduser()) for name in _DEFAULTS)
    return [path for path in paths if Path(path).is_file()]


def _is_locked(path: str) -> bool:
    try:
        paramiko.PKey.from_path(path)
    except TypeError:  # what cryptography raises for a key that wants a passphrase
        return True
    except (ValueError, OSError, paramiko.SSHException):
        return False
    return False


def _to_agent() -> str:
    """Return what gives a key to the agent; one is started where there is none."""
    return "ssh-add" if os.environ.get("SSH_AUTH_SOCK") else 'eval "$(ssh-agent)" && ssh-add'


def _of_agent(end: Endpoint) -> str:
    path = os.environ.get("SSH_AUTH_SOCK")
    if not path:
        return "and there is no SSH agent (SSH_AUTH_SOCK is not set)"
    return "and the SSH agent has no key for it" if agent_answers() else f"and the SSH agent at {path} does not answer"
