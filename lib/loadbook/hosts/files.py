"""Files to and from a host by SFTP: whole or not at all, bounded, every byte checked."""

from __future__ import annotations

import hashlib
import stat
import uuid
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol

from loadbook.core.errors import HostError, OversizeError
from loadbook.hosts.connection import ANSWER_S
from loadbook.records.atomic import appearing, room

if TYPE_CHECKING:
    from paramiko import SFTPClient, Transport

_BLOCK = 1 << 15  # what sftp answers at once
_ASKED = 128  # blocks that are asked for at a time


class Sha256(Protocol):
    """Asks the host itself for the digest (hex) of a file, or of so many of its first bytes.

    With `ours` the file must be below the work folder itself, with no link on the way.
    """

    def __call__(self, path: str, first_bytes: int | None = None, *, ours: bool = False) -> str:
        """Return the digest, an empty text if there is none."""
        ...


class Files:
    """SFTP on one connection; paths are absolute, what is fetched lies below `workdir`."""

    def __init__(self, alias: str, transport: Transport, sha256: Sha256, workdir: str) -> None:
        client = transport.open_sftp_client()
        assert client is not None
        channel = client.get_channel()
        assert channel is not None
        channel.settimeout(ANSWER_S)
        self._sftp: SFTPClient = client
        self._alias, self._sha256, self._workdir = alias, sha256, workdir

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
        """Copy a file to `local`, which appears by rename; return its sha256, checked against the host's.

        OversizeError: it is larger; `local` holds its first `max_bytes` bytes. HostError: it is no file itself; a link
        leads to what was never ours to read.
        """
        size = self._plain_size(path)
        kept = min(size, max_bytes)
        with appearing(local, kept) as part:
            digest = self._copy(path, part, kept)
            if self._sha256(path, None if kept == size else kept, ours=True) != digest:
                raise HostError(self._alias, f"{path} changed while it was fetched", "fetch a job's files after its rc")
        if kept < size:
            raise OversizeError(self._alias, path, size, kept)
        return digest

    def _plain_size(self, path: str) -> int:
        """Return the size of the file at `path`; HostError for a link, or where one stands on the way to it."""
        there = self._sftp.lstat(path)
        place = path.removeprefix(self._workdir)
        if not stat.S_ISREG(there.st_mode or 0) or self._sftp.normalize(path) != f"{self._root}{place}":
            raise HostError(
                self._alias, f"{path} is not a plain file of ours: not fetched", "who else writes in that folder?"
            )
        return there.st_size or 0

    @cached_property
    def _root(self) -> str:
        return str(self._sftp.normalize(self._workdir)).rstrip("/")

    def _copy(self, path: str, part: Path, size: int) -> str:
        """Copy the first `size` bytes, a few requests under way at a time: what has arrived waits in memory."""
        digest = hashlib.sha256()
        left = size
        with self._sftp.open(path, "rb") as remote, part.open("xb") as local:
            for start in range(0, size, _BLOCK * _ASKED):
                ends = range(start, min(size, start + _BLOCK * _ASKED), _BLOCK)
                for block in remote.readv([(at, min(_BLOCK, size - at)) for at in ends]):
                    left -= len(block)
                    digest.update(block)
                    with room(part, size):
                        local.write(block)
        if left:
            raise HostError(self._alias, f"{path}: {size - left} of {size} bytes arrived")
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
