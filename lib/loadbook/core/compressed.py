"""Files that may be compressed by gzip or zstd, which are read as what they hold."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from loadbook.core.errors import DataError

# first bytes of a compressed file -> name of the format, and the ending of such files
FORMATS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
# what reading a cut or broken file raises; of OSError, only those without errno
BROKEN = (EOFError, OSError, zlib.error)
ENDINGS = (".gz", ".zst", ".zstd")


def compression(head: bytes) -> str | None:
    """Return the format of a compressed file by its first bytes: "gzip" or "zstd"; None if it is neither."""
    return next((name for magic, name in FORMATS.items() if head.startswith(magic)), None)


def plain_name(name: str) -> str:
    """Return the name of a file without the ending of a compressed one: results.jtl.gz is results.jtl."""
    return next((name.removesuffix(ending) for ending in ENDINGS if name.endswith(ending)), name)


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading bytes, uncompressed if it is compressed."""
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
