"""Where an alias connects to: the hosts file's entry over the user's own ~/.ssh/config."""

from __future__ import annotations

import getpass
from dataclasses import dataclass, replace
from pathlib import Path

from paramiko.config import SSHConfig, SSHConfigDict

from loadbook.core.errors import SpecProblem, StudyError, UsageError
from loadbook.hosts.host_lock import LockRequest
from loadbook.hosts.inventory import HostEntry

MAX_JUMPS = 8


@dataclass(frozen=True)
class Endpoint:
    """One SSH server to log in to, and the way there.

    `host_key_alias` is the name its keys are looked up under (HostKeyAlias), `known_hosts` the files to look in, the
    first that knows the host wins; `jump` is the server before it on the way. `state_folder` is the host's folder for what
    must be found again after a reboot (`hosts.undo`), "" its own choice.
    """

    alias: str
    host_name: str
    port: int
    user: str
    host_key_alias: str
    known_hosts: tuple[Path, ...]
    identity_files: tuple[str, ...] = ()
    use_agent: bool = True
    jump: Endpoint | None = None
    proxy_command: str | None = None
    lock_request: LockRequest | None = None
    state_folder: str = ""

    @property
    def destination(self) -> str:
        """Return user@host:port for messages."""
        return f"{self.user}@{self.host_name}:{self.port}"


def read_user_config(path: Path | None = None) -> SSHConfig:
    """Read the user's own ssh configuration (default ~/.ssh/config); never one that came with a study."""
    path = path or Path("~/.ssh/config").expanduser()
    if not path.is_file():
        return SSHConfig()
    try:
        config: SSHConfig = SSHConfig.from_path(str(path))
    except Exception as error:
        raise StudyError(str(path), [SpecProblem("file", str(error))]) from error
    return config


def resolve_host_name(alias: str, entry: HostEntry) -> str:
    """Return the name or address that an alias connects to; nothing but the user's ~/.ssh/config is read."""
    return entry.host_name or str(read_user_config().lookup(entry.ssh or alias).get("hostname", alias))


def resolve_endpoint(alias: str, entry: HostEntry, known_hosts: Path, config: SSHConfig | None = None) -> Endpoint:
    """Return where `alias` connects to; `known_hosts` is our own file of trusted keys, asked first."""
    config = config or read_user_config()
    name = entry.ssh or alias
    found = config.lookup(name)
    overrides = {"hostname": entry.host_name, "port": entry.port, "user": entry.user}
    found.update({k: str(v) for k, v in overrides.items() if v is not None})
    if entry.identity_file:
        if not Path(entry.identity_file).expanduser().is_file():
            raise UsageError(
                f"host {alias}: identity_file {entry.identity_file} is not there", "correct the hosts file"
            )
        found.update({"identityfile": [entry.identity_file], "identitiesonly": "yes"})
    jump = None if entry.host_name else _last_jump(found.get("proxyjump"), known_hosts, config, MAX_JUMPS)
    return replace(_endpoint(alias, found, known_hosts, jump), state_folder=entry.state or "")


def _last_jump(chain: str | None, known_hosts: Path, config: SSHConfig, depth: int) -> Endpoint | None:
    """Return the last hop of a ProxyJump chain, each reached through the one before it."""
    last = None
    for hop in chain.split(",") if chain and chain != "none" else []:
        if depth == 0:
            raise UsageError(f"ProxyJump {chain!r}: more than {MAX_JUMPS} hops", "check ~/.ssh/config for a circle")
        user, _, address = hop.strip().removeprefix("ssh://").rpartition("@")
        name, _, port = address.partition(":")
        found = config.lookup(name)
        found.update({k: v for k, v in {"user": user, "port": port}.items() if v})
        previous = last or _last_jump(found.get("proxyjump"), known_hosts, config, depth - 1)
        last = _endpoint(name, found, known_hosts, previous)
    return last


def _endpoint(alias: str, found: SSHConfigDict, known_hosts: Path, jump: Endpoint | None) -> Endpoint:
    try:
        port = int(found.get("port", 22))
    except ValueError:
        raise UsageError(f"host {alias}: port {found['port']!r} is not a number", "check ~/.ssh/config") from None
    extra = [Path(p).expanduser() for p in str(found.get("userknownhostsfile", "~/.ssh/known_hosts")).split()]
    keys = tuple(str(Path(p).expanduser()) for p in found.get("identityfile", []))
    return Endpoint(
        alias,
        host_name=found["hostname"],
        port=port,
        user=found.get("user") or getpass.getuser(),
        host_key_alias=found.get("hostkeyalias") or found["hostname"],
        known_hosts=(known_hosts, *extra),
        identity_files=tuple(k for k in keys if Path(k).is_file()),
        use_agent=found.get("identitiesonly", "no") != "yes",
        jump=jump,
        proxy_command=None if jump else found.get("proxycommand"),
    )
