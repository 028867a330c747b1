"""Files to and from a host by SFTP: whole or not at all, bounded, every byte checked."""

from __future__ import annotations

import hashlib
import stat
import uuid
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from loadbook.core.errors import HostError
from loadbook.hosts.connection import ANSWER_S

if TYPE_CHECKING:
    from paramiko import SFTPClient, Transport

_BLOCK = 1 << 18
Sha256 = Callable[[str], str]


class Files:
    """SFTP on one connection; paths are absolute. `sha256` asks the host itself for a file's digest (hex)."""

    def __init__(self, alias: str, transport: Transport, sha256: Sha256) -> None:
        client = transport.open_sftp_client()
        assert client is not None
        channel = client.get_channel()
        assert channel is not None
        channel.settimeout(ANSWER_S)
        self._sftp: SFTPClient = client
        self._alias, self._sha256 = alias, sha256

    def put(self, path: str, data: bytes, mode: int) -> None:
        """Write `data` beside `path`, check size and sha256, rename over it."""
        part = f"{path}.{uuid.uuid4().hex[:12]}.part"
        try:
            self._write(part, data)
            self._check(part, len(data), hashlib.sha256(data).hexdigest())
            self._sftp.chmod(part, mode)
            self._sftp.posix_rename(part, path)
        except BaseException:
            self._forget(part)
            raise

    def _write(self, path: str, data: bytes) -> None:
        with self._sftp.open(path, "wb") as handle:
            handle.set_pipelined(True)
            for start in range(0, len(data), _BLOCK):
                handle.write(data[start : start + _BLOCK])

    def _check(self, path: str, size: int, digest: str) -> None:
        there = self._sftp.stat(path).st_size
        if there != size:
            raise HostError(self._alias, f"{path}: {there} of {size} bytes arrived", "is its disk full?")
        if self._sha256(path) != digest:
            raise HostError(self._alias, f"{path}: other bytes arrived than were sent")

    def _forget(self, path: str) -> None:
        try:
            self._sftp.remove(path)
        except (OSError, EOFError):
            return

    def get(self, path: str, max_bytes: int) -> bytes:
        """Return a whole file of at most `max_bytes`."""
        with self._sftp.open(path, "rb") as handle:
            data: bytes = handle.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise HostError(self._alias, f"{path} is larger than the {max_bytes} bytes allowed")
        return data

    def fetch(self, path: str, local: Path, max_bytes: int) -> str:
        """Copy a file to `local`, which appears by rename; return its sha256, checked against the host's."""
        size = self._sftp.stat(path).st_size or 0
        if size > max_bytes:
            raise HostError(self._alias, f"{path} has {size} bytes, more than the {max_bytes} allowed")
        part = local.with_name(f".{local.name}.{uuid.uuid4().hex[:12]}.part")
        try:
            digest = self._copy(path, part, size)
            if self._sha256(path) != digest:
                raise HostError(self._alias, f"{path} changed while it was fetched", "fetch a job's files after its rc")
            part.replace(local)
        finally:
            part.unlink(missing_ok=True)
        return digest

    def _copy(self, path: str, part: Path, size: int) -> str:
        digest = hashlib.sha256()
        with self._sftp.open(path, "rb") as remote, part.open("xb") as local:
            remote.prefetch(size)
            while block := remote.read(_BLOCK):
                digest.update(block)
                local.write(block)
        if part.stat().st_size != size:
            raise HostError(self._alias, f"{path}: {part.stat().st_size} of {size} bytes arrived")
        return digest.hexdigest()

    def exists(self, path: str) -> bool:
        """Tell whether a path is there."""
        try:
            self._sftp.stat(path)
        except FileNotFoundError:
            return False
        return True

    def make_folders(self, path: str) -> None:
        """Make a folder and those above it."""
        missing = []
        folder = PurePosixPath(path)
        while not self.exists(str(folder)):
            missing.append(str(folder))
            folder = folder.parent
        for name in reversed(missing):
            self._sftp.mkdir(name)

    def is_folder(self, path: str) -> bool:
        """Tell whether a path is a folder itself, not a link to one."""
        try:
            return stat.S_ISDIR(self._sftp.lstat(path).st_mode or 0)
        except FileNotFoundError:
            return False
