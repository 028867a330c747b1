"""Files that may be compressed by gzip or zstd, or in UTF-16, which are read as what they hold in UTF-8."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

from loadbook.core.errors import DataError

# first bytes of a compressed file -> name of the format, and the ending of such files
FORMATS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
# what reading a cut or broken file raises; of OSError, only those without errno
BROKEN = (EOFError, OSError, zlib.error)
ENDINGS = (".gz", ".zst", ".zstd")
UTF_16_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
HEAD_BYTES = 64  # which tell that a text without a mark is in UTF-16
BLOCK_BYTES = 1 << 16


def compression(head: bytes) -> str | None:
    """Return the format of a compressed file by its first bytes: "gzip" or "zstd"; None if it is neither."""
    return next((name for magic, name in FORMATS.items() if head.startswith(magic)), None)


def plain_name(name: str) -> str:
    """Return the name of a file without the ending of a compressed one: results.jtl.gz is results.jtl."""
    return next((name.removesuffix(ending) for ending in ENDINGS if name.endswith(ending)), name)


def utf_16(head: bytes) -> str | None:
    """Return "utf-16-le" or "utf-16-be" for the first bytes of such a text, by its mark, or if all is ASCII."""
    if encoding := UTF_16_MARKS.get(head[:2]):
        return encoding
    head = head[: min(HEAD_BYTES, len(head) & ~1)]
    high, low = head[::2], head[1::2]
    if len(head) < HEAD_BYTES // 2 or any(high) == any(low):
        return None
    text, encoding = (low, "utf-16-be") if not any(high) else (high, "utf-16-le")
    return encoding if b"\0" not in text and text.isascii() else None


class _Utf8(io.RawIOBase):
    """A stream in UTF-16 as one in UTF-8 without a mark; what is no UTF-16 becomes U+FFFD."""

    def __init__(self, source: BinaryIO, encoding: str) -> None:
        self._source, self._decoder, self._ready = source, codecs.getincrementaldecoder(encoding)("replace"), b""
        self._is_first = True

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Write the next bytes into `buffer`, and return their number."""
        while not self._ready:
            data = self._source.read(BLOCK_BYTES)
            text = self._decoder.decode(data, final=not data)
            if self._is_first and text:
                text, self._is_first = text.removeprefix("\ufeff"), False
            self._ready = text.encode(errors="replace")
            if not data:
                break
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def close(self) -> None:
        """Close the source, too."""
        self._source.close()
        super().close()


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading bytes: uncompressed if it is compressed, and as UTF-8 if it is in UTF-16."""
    stream = _open_uncompressed(path)
    try:
        encoding = utf_16(stream.read(HEAD_BYTES))
    except BaseException:
        stream.close()
        raise
    if encoding is None and stream.seekable():
        stream.seek(0)
        return stream
    stream.close()
    stream = _open_uncompressed(path)
    return cast("BinaryIO", io.BufferedReader(_Utf8(stream, encoding), BLOCK_BYTES)) if encoding else stream


def _open_uncompressed(path: Path) -> BinaryIO:
    raw = path.open("rb", buffering=0)
    form = compression(raw.read(4))
    raw.seek(0)
    if form == "gzip":
        return cast("BinaryIO", gzip.open(raw))
    if form == "zstd":
        import pyarrow as pa

        return cast("BinaryIO", pa.CompressedInputStream(raw, "zstd"))
    return cast("BinaryIO", raw)


def decompress(data: bytes, name: str, limit: int) -> tuple[bytes, str | None]:
    """Return the content of a file `name` uncompressed, and the format; unchanged and None if it is not compressed.

    Raises
    ------
    DataError : the file is cut or broken, or holds more than `limit` bytes.
    """
    form = compression(data)
    if form is None:
        return data, None
    import pyarrow as pa

    try:
        with pa.CompressedInputStream(io.BytesIO(data), form) as stream:
            content = bytes(stream.read(limit + 1))
            complete = len(content) > limit or not stream.read(1)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{name}: the {form} file is cut or broken: {error}", "copy it again") from None
    if len(content) > limit or not complete:
        raise DataError(f"{name}: more than {limit:,} bytes once it is uncompressed", f"uncompress it: {form} -d")
    return content, form
