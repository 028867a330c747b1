"""SSH endpoints and host keys: the server that an alias connects to, and the host keys that are trusted for it.

An entry of the hosts file takes precedence over the user's ~/.ssh/config. Paramiko's own reader of known_hosts stops
at the first unreadable line, ignores wildcards and negations, and misses ``[host]:22``; this reader skips only the
lines that it cannot use.
"""

from __future__ import annotations

import base64
import getpass
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from paramiko import HostKeys, PKey
from paramiko.ssh_exception import SSHException

from loadbook.core.errors import UsageError
from loadbook.hosts.inventory import HostEntry
from loadbook.hosts.jobs import LockRequest
from loadbook.hosts.ssh_config import (
    DEFAULT_KEY_FILES,
    Options,
    UserConfig,
    expand_path,
    expand_tokens,
    read_user_config,
    tokens_of,
)

MAX_JUMPS = 8

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endpoint:
    """One SSH server to log in to, with its jump hosts.

    `host_key_alias` is the name under which its keys are looked up (HostKeyAlias) and `known_hosts` the files with
    these keys; the first file that knows the host wins. `identity_files` are the keys that the user names (None: ssh's
    default files); with `use_agent` all keys of the agent are tried, too. `agent_socket` is the agent's
    (IdentityAgent), "" for no agent, None for that in SSH_AUTH_SOCK. `jump` is the last jump host before it.
    `state_folder` is the host's folder for original settings that must survive a reboot (`hosts.rollback`); "" for the
    host's default.
    """

    alias: str
    host_name: str
    port: int
    user: str
    host_key_alias: str
    known_hosts: tuple[Path, ...]
    identity_files: tuple[str, ...] | None = None
    certificate_files: tuple[str, ...] = ()
    use_agent: bool = True
    agent_socket: str | None = None
    jump: Endpoint | None = None
    proxy_command: str | None = None
    lock_request: LockRequest | None = None
    state_folder: str = ""

    @property
    def destination(self) -> str:
        """Return user@host:port for messages."""
        return f"{self.user}@{self.host_name}:{self.port}"


def resolve_host_name(alias: str, entry: HostEntry) -> str:
    """Return the host name or address that an alias connects to, from its entry or the user's ~/.ssh/config."""
    if entry.host_name:
        return entry.host_name
    return read_user_config().lookup(entry.ssh or alias, entry.user, entry.port)["hostname"][0]


def resolve_endpoint(alias: str, entry: HostEntry, known_hosts: Path, config: UserConfig | None = None) -> Endpoint:
    """Return the SSH endpoint of `alias`; `known_hosts` is loadbook's own file of trusted keys and is read first."""
    config = config or read_user_config()
    name = entry.ssh or alias
    options = config.lookup(name, entry.user, entry.port)
    if entry.host_name:
        options |= {"hostname": [entry.host_name], "proxyjump": []}
    if entry.identity_file:
        path = Path(entry.identity_file).expanduser()
        if not path.is_file():
            problem = f"host {alias}: identity_file {entry.identity_file} is not there"
            raise UsageError(problem, "correct the hosts file")
        options |= {"identityfile": [str(path).replace("%", "%%")], "identitiesonly": ["yes"], "certificatefile": []}
    jump = _last_jump(name, options, known_hosts, config, MAX_JUMPS)
    return replace(_endpoint(alias, name, options, known_hosts, jump), state_folder=entry.state or "")


def _last_jump(name: str, options: Options, known_hosts: Path, config: UserConfig, hops_left: int) -> Endpoint | None:
    """Return the last hop of a ProxyJump chain (each hop is reached through the one before it); None for no chain."""
    last, chain = None, _value(options, "proxyjump")
    for hop in expand_tokens(chain, tokens_of(name, options)).split(",") if chain else []:
        if hops_left == 0:
            raise UsageError(f"ProxyJump {chain!r}: more than {MAX_JUMPS} hops", "check ~/.ssh/config for a circle")
        user, _, address = hop.strip().removeprefix("ssh://").rpartition("@")
        hop_name, port = re.fullmatch(r"(.*?)(?::(\d+))?", address).groups()  # type: ignore[union-attr]
        hop_name = hop_name.strip("[]")  # of an IPv6 address
        hop_options = config.lookup(hop_name, user or None, int(port) if port else None)
        previous = last or _last_jump(hop_name, hop_options, known_hosts, config, hops_left - 1)
        last = _endpoint(hop_name, hop_name, hop_options, known_hosts, previous)
    return last


def _value(options: Options, keyword: str) -> str:
    """Return the value of a keyword; "" if it is missing or none."""
    value = "".join(options.get(keyword, [])[:1])
    return "" if value.lower() == "none" else value


def _endpoint(alias: str, name: str, options: Options, known_hosts: Path, jump: Endpoint | None) -> Endpoint:
    tokens, host_name, port = tokens_of(name, options), options["hostname"][0], _value(options, "port") or "22"
    if not port.isdecimal():
        raise UsageError(f"host {alias}: port {port!r} is not a number", "check ~/.ssh/config")
    known_hosts_paths = options.get("userknownhostsfile", ["~/.ssh/known_hosts"])[0].split()
    command = _value(options, "proxycommand")
    names, identity_files = options.get("identityfile", []), None  # None: those that ssh has by default
    if names and not set(DEFAULT_KEY_FILES) <= set(names):
        paths = dict.fromkeys(expand_path(name, tokens) for name in names if name != "none")
        # a key may be there only as .pub, its private half in the agent
        identity_files = tuple(str(path) for path in paths if path.is_file() or Path(f"{path}.pub").is_file())
    return Endpoint(
        alias,
        host_name=host_name,
        port=int(port),
        user=_value(options, "user") or getpass.getuser(),
        host_key_alias=_value(options, "hostkeyalias") or host_name,
        known_hosts=(known_hosts, *(expand_path(path, tokens) for path in known_hosts_paths if path != "none")),
        identity_files=identity_files,
        certificate_files=tuple(str(expand_path(path, tokens)) for path in options.get("certificatefile", [])),
        use_agent=_value(options, "identitiesonly") != "yes",
        agent_socket=_agent_socket(options, tokens),
        jump=jump,
        proxy_command=expand_tokens(command, tokens) if command and not jump else None,
    )


def _agent_socket(options: Options, tokens: Mapping[str, str]) -> str | None:
    """Return the socket of IdentityAgent: "" for none, None for the one in SSH_AUTH_SOCK."""
    value = "".join(options.get("identityagent", []))
    if value in ("", "SSH_AUTH_SOCK"):
        return None
    if value.startswith("$") and not value.startswith("${"):
        return os.environ.get(value[1:], "")
    return "" if value == "none" else str(expand_path(value, tokens))


class KnownHostsLine(NamedTuple):
    """One usable line of a known_hosts file; `marker` is "", "@revoked" or "@cert-authority".

    `names` is its first field as it is in the file, for `matches_host`.
    """

    marker: str
    names: str
    key: PKey


def lookup_name(host: str, port: int) -> str:
    """Return the name under which a host's keys are kept: plain for port 22, else ``[host]:port``."""
    return host if port == 22 else f"[{host}]:{port}"


def trusted_keys(files: Iterable[Path], host: str, port: int) -> list[PKey]:
    """Return the keys of the first file that knows the host, without those that any file revokes."""
    keys: list[PKey] = []
    revoked: list[PKey] = []
    for path in files:
        lines = [line for line in read_known_hosts(path) if matches_host(line.names, host, port)]
        revoked += [line.key for line in lines if line.marker == "@revoked"]
        keys = keys or [line.key for line in lines if not line.marker]
    return [key for key in keys if key not in revoked]


def untrusted_key_status(endpoint: Endpoint, key: PKey) -> Literal["revoked", "authority", "unknown"]:
    """Return the status of an untrusted key in the known_hosts files of an endpoint.

    "authority": the host has a line @cert-authority, whose certificates loadbook cannot check; "unknown": neither
    that nor a line that revokes the key.
    """
    lines = [line for path in endpoint.known_hosts for line in read_known_hosts(path)]
    lines = [line for line in lines if matches_host(line.names, endpoint.host_key_alias, endpoint.port)]
    if any(line.marker == "@revoked" and line.key == key for line in lines):
        return "revoked"
    return "authority" if any(line.marker == "@cert-authority" for line in lines) else "unknown"


def read_known_hosts(path: Path) -> list[KnownHostsLine]:
    """Return the usable lines of a known_hosts file (none if it is not there); the others are logged."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        if raw.strip() and not raw.lstrip().startswith("#"):
            if line := parse_line(raw):
                lines.append(line)
            else:
                log.info("%s:%d: skipped, not a host key that can be read", path, number)
    return lines


def parse_line(text: str) -> KnownHostsLine | None:
    """Parse one line (marker, names, type, key) of a known_hosts file; None if it cannot be used."""
    fields = text.split()
    marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
    if len(fields) < 3:
        return None
    names, kind, blob = fields[:3]
    try:
        return KnownHostsLine(marker, names, PKey.from_type_string(kind, base64.b64decode(blob, validate=True)))
    except (ValueError, SSHException, TypeError, IndexError):
        return None


def matches_host(names: str, host: str, port: int) -> bool:
    """Return whether the names field of a line (plain, hashed, wildcards, ``!name`` to exclude) matches this host."""
    host_names = {f"[{host}]:{port}".lower()} | ({host.lower()} if port == 22 else set())
    if names.startswith("|1|"):
        try:
            return any(HostKeys.hash_host(name, names) == names for name in host_names)
        except (ValueError, AssertionError, IndexError):  # malformed hash
            return False
    patterns = names.lower().split(",")
    if any(p.startswith("!") and _glob_matches(p[1:], host_names) for p in patterns):
        return False
    return any(_glob_matches(p, host_names) for p in patterns if not p.startswith("!"))


def _glob_matches(pattern: str, host_names: set[str]) -> bool:
    expression = re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern))
    return any(expression.fullmatch(name) for name in host_names)


def describe_key(key: PKey) -> str:
    """Return type and fingerprint of a key in the form that ``ssh-keygen -lf`` prints."""
    return f"{key.get_name()} {key.fingerprint}"
