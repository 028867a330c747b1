"""Which code makes the tables: what one version has read, another one reads again."""

from __future__ import annotations

import platform
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import loadbook
import loadbook.tools

# the libraries that read, decide or write
LIBRARIES = ("numpy", "pandas", "pyarrow", "pydantic", "scipy")
SOURCE_SUFFIXES = (".py", ".toml")


@cache
def code_version() -> str:
    """Return a digest of every file of loadbook, of tools added to it, and of the versions beneath."""
    digest = sha256(repr([platform.python_version(), *((name, version(name)) for name in LIBRARIES)]).encode())
    for folder in map(Path, dict.fromkeys((*loadbook.__path__, *loadbook.tools.__path__))):
        for file in sorted(p for p in folder.rglob("*") if p.suffix in SOURCE_SUFFIXES):
            digest.update(repr((file.relative_to(folder).as_posix(), file.read_bytes())).encode())
    return digest.hexdigest()
