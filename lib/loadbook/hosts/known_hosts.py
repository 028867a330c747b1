"""Files of trusted host keys: which keys a host is allowed to show.

Paramiko's own reader stops at the first unreadable line, ignores wildcards and negations, and misses
``[host]:22`` (reliability.md R2); this one reads line by line and skips what it cannot use.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from paramiko import HostKeys, PKey
from paramiko.ssh_exception import SSHException

log = logging.getLogger(__name__)


class KnownHostsLine(NamedTuple):
    """One usable line of a known_hosts file; `marker` is "", "@revoked" or "@cert-authority"."""

    marker: str
    names: str
    key: PKey


def lookup_name(host: str, port: int) -> str:
    """Return the name under which a host's keys are kept: plain for port 22, else ``[host]:port``."""
    return host if port == 22 else f"[{host}]:{port}"


def trusted_keys(files: Iterable[Path], host: str, port: int) -> list[PKey]:
    """Return the keys of the first file that knows the host, without those that any file revokes."""
    found: list[PKey] = []
    revoked: list[PKey] = []
    for path in files:
        lines = [line for line in read_known_hosts(path) if matches_host(line.names, host, port)]
        revoked += [line.key for line in lines if line.marker == "@revoked"]
        found = found or [line.key for line in lines if not line.marker]
    return [key for key in found if key not in revoked]


def untrusted_key_status(files: Iterable[Path], host: str, port: int, key: PKey) -> Literal["revoked", "authority", "unknown"]:
    """Return what files say of a key that is not trusted; "authority": certificates of this host would be."""
    lines = [line for path in files for line in read_known_hosts(path) if matches_host(line.names, host, port)]
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
            line = parse_line(raw)
            if line:
                lines.append(line)
            else:
                log.info("%s:%d: skipped, not a host key that can be read", path, number)
    return lines


def parse_line(text: str) -> KnownHostsLine | None:
    """Return one line (marker, names, type, key), or None for what cannot be used."""
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
    """Tell whether a line's first field means this host: plain, hashed, wildcards, and ``!name`` as a veto."""
    host_names = {f"[{host}]:{port}".lower()} | ({host.lower()} if port == 22 else set())
    if names.startswith("|1|"):
        return any(_hash_name(name, names) == names for name in host_names)
    patterns = names.lower().split(",")
    if any(p.startswith("!") and _glob_matches(p[1:], host_names) for p in patterns):
        return False
    return any(_glob_matches(p, host_names) for p in patterns if not p.startswith("!"))


def _hash_name(name: str, like: str) -> str | None:
    try:
        return str(HostKeys.hash_host(name, like))
    except (ValueError, AssertionError, IndexError):
        return None


def _glob_matches(pattern: str, host_names: set[str]) -> bool:
    expression = re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern))
    return any(expression.fullmatch(name) for name in host_names)


def format_line(key: PKey, host: str, port: int) -> str:
    """Return the plain known_hosts line of one key."""
    return f"{lookup_name(host, port)} {key.get_name()} {key.get_base64()}"


def fingerprint(key: PKey) -> str:
    """Return a key's fingerprint as OpenSSH prints it: ``SHA256:...``."""
    return str(key.fingerprint)
