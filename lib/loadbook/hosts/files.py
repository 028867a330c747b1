"""Files to and from a host by SFTP: whole or not at all, bounded, every byte checked."""

from __future__ import annotations

import hashlib
import stat
import uuid
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol

from loadbook.core.errors import HostError, OversizeError
from loadbook.hosts.ssh import RESPONSE_TIMEOUT_S
from loadbook.store.atomic import atomic_path, explain_disk_full

if TYPE_CHECKING:
    from paramiko import SFTPClient, Transport

_BLOCK_BYTES = 1 << 15  # what sftp answers at once
_BLOCKS_IN_FLIGHT = 128  # blocks that are asked for at a time


class RemoteSha256(Protocol):
    """Callable that returns the host's own digest (hex) of a file, or of its first bytes.

    With `in_workdir` the file must be below the work folder itself, with no link on the way.
    """

    def __call__(self, path: str, first_bytes: int | None = None, *, in_workdir: bool = False) -> str:
        """Return the digest, an empty text if there is none."""
        ...


class SftpFiles:
    """SFTP on one connection; paths are absolute, what is fetched lies below `workdir`."""

    def __init__(self, alias: str, transport: Transport, sha256: RemoteSha256, workdir: str) -> None:
        client = transport.open_sftp_client()
        assert client is not None
        channel = client.get_channel()
        assert channel is not None
        channel.settimeout(RESPONSE_TIMEOUT_S)
        self._sftp: SFTPClient = client
        self._alias, self._sha256, self._workdir = alias, sha256, workdir

    def put(self, path: str, data: bytes, mode: int) -> None:
        """Write `data` beside `path`, check size and sha256, rename over it."""
        part = f"{path}.{uuid.uuid4().hex[:12]}.part"
        try:
            self._write(part, data)
            self._verify(part, len(data), hashlib.sha256(data).hexdigest())
            self._sftp.chmod(part, mode)
            self._sftp.posix_rename(part, path)
        except BaseException:
            self._discard(part)
            raise

    def _write(self, path: str, data: bytes) -> None:
        with self._sftp.open(path, "wb") as handle:
            handle.set_pipelined(True)
            for start in range(0, len(data), _BLOCK_BYTES):
                handle.write(data[start : start + _BLOCK_BYTES])

    def _verify(self, path: str, size: int, digest: str) -> None:
        remote_size = self._sftp.stat(path).st_size
        if remote_size != size:
            raise HostError(self._alias, f"{path}: {remote_size} of {size} bytes arrived", "is its disk full?")
        if self._sha256(path) != digest:
            raise HostError(self._alias, f"{path}: other bytes arrived than were sent")

    def _discard(self, path: str) -> None:
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
        size = self._regular_file_size(path)
        copied_size = min(size, max_bytes)
        with atomic_path(local, copied_size) as part:
            digest = self._copy(path, part, copied_size)
            if self._sha256(path, None if copied_size == size else copied_size, in_workdir=True) != digest:
                raise HostError(self._alias, f"{path} changed while it was fetched", "fetch a job's files after its rc")
        if copied_size < size:
            raise OversizeError(self._alias, path, size, copied_size)
        return digest

    def _regular_file_size(self, path: str) -> int:
        """Return the size of the file at `path`; HostError for a link, or where one stands on the way to it."""
        attributes = self._sftp.lstat(path)
        below_workdir = path.removeprefix(self._workdir)
        if (
            not stat.S_ISREG(attributes.st_mode or 0)
            or self._sftp.normalize(path) != f"{self._real_workdir}{below_workdir}"
        ):
            raise HostError(
                self._alias, f"{path} is not a plain file of ours: not fetched", "who else writes in that folder?"
            )
        return attributes.st_size or 0

    @cached_property
    def _real_workdir(self) -> str:
        return str(self._sftp.normalize(self._workdir)).rstrip("/")

    def _copy(self, path: str, part: Path, size: int) -> str:
        """Copy the first `size` bytes, a few requests under way at a time: what has arrived waits in memory."""
        digest = hashlib.sha256()
        missing_bytes = size
        with self._sftp.open(path, "rb") as remote, part.open("xb") as local:
            for start in range(0, size, _BLOCK_BYTES * _BLOCKS_IN_FLIGHT):
                block_starts = range(start, min(size, start + _BLOCK_BYTES * _BLOCKS_IN_FLIGHT), _BLOCK_BYTES)
                for block in remote.readv([(offset, min(_BLOCK_BYTES, size - offset)) for offset in block_starts]):
                    missing_bytes -= len(block)
                    digest.update(block)
                    with explain_disk_full(part, size):
                        local.write(block)
        if missing_bytes:
            raise HostError(self._alias, f"{path}: {size - missing_bytes} of {size} bytes arrived")
        return digest.hexdigest()

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
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
