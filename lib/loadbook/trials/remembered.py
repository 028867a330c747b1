"""What the last ingest of a run left, so that the next reads only what is new: its tables, and a memory beside them.

The memory holds, by trial, the identity of the folder that was read (`trials.folders`) and what is known of it beside
its rows; the rows are in the tables. It counts only if the plan, the code and the tables are those it was made with.
Anything else, torn or foreign, is no error: everything is read again. The same raw data gives the same memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import DataError
from loadbook.records import manifest
from loadbook.records.added import Added, added
from loadbook.records.layout import RunPaths
from loadbook.records.schema import TABLES, write_arrow
from loadbook.trials.folders import Found
from loadbook.trials.reading import OWN_TABLES, Known
from loadbook.trials.versions import code_version

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("trial", "identity", "record", "said")
END_BYTES = 1 << 16


@dataclass(frozen=True)
class Memory:
    """A memory that counts.

    `state` tells which raw data the tables show (see `state_of`), `summary` is what was said of them.
    """

    paths: RunPaths
    state: str
    summary: dict[str, Any]

    def known(self, found: Mapping[str, Found]) -> dict[str, Known]:
        """Return what is known of the trials whose folders are unchanged."""
        import pyarrow.parquet as pq

        rows = pq.read_table(_trials(self.paths)).to_pylist()
        same = [row for row in rows if row["trial"] in found and row["identity"] == found[row["trial"]].identity != ""]
        return {row["trial"]: Known(row["record"], **json.loads(row["said"])) for row in same}

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables of which every row belongs to one trial."""
        import pyarrow.parquet as pq

        return {name: pq.read_table(self.paths.table(name)) for name in OWN_TABLES}


def state_of(paths: RunPaths, found: Mapping[str, Found], more: Any) -> str:
    """Return a digest of all that tables are made of; empty if some of it cannot be told from a later change.

    `more` is what else they show, as values of JSON.
    """
    identities = {trial: one.identity for trial, one in found.items()}
    return "" if "" in identities.values() else _digest([_basis(paths), identities, more])


def recall(paths: RunPaths) -> Memory | None:
    """Return the memory of a run, None if there is none that counts."""
    try:
        kept = manifest.read_json(_note(paths))
        digest = kept.pop("digest")
        if digest == _digest(kept) and kept["basis"] == _basis(paths) and kept["files"] == _files(paths):
            return Memory(paths, kept["state"], kept["summary"])
    except (DataError, OSError, AttributeError, KeyError, TypeError):
        pass
    return None


def remember(
    paths: RunPaths, state: str, summary: dict[str, Any], found: Mapping[str, Found], known: Mapping[str, Known]
) -> None:
    """Keep what was found, now that the tables are written."""
    import pyarrow as pa

    rows = [(t, found[t].identity, one.record, _said(one)) for t, one in sorted(known.items())]
    columns = zip(*rows, strict=True) if rows else [[]] * len(COLUMNS)
    types = pa.schema([(name, pa.large_string()) for name in COLUMNS])
    write_arrow(_trials(paths), pa.table([pa.array(c, pa.large_string()) for c in columns], schema=types))
    kept = {"basis": _basis(paths), "state": state, "summary": summary, "files": _files(paths)}
    manifest.write_json(_note(paths), kept | {"digest": _digest(kept)})


def _said(known: Known) -> str:
    return json.dumps({name: value for name, value in asdict(known).items() if name != "record"})


def _note(paths: RunPaths) -> Path:
    return paths.memory / "memory.json"


def _trials(paths: RunPaths) -> Path:
    return paths.memory / "trials.parquet"


def _basis(paths: RunPaths) -> str:
    """Return a digest of what decides beside the trials: the code, the plan, the run's name, traces that were added."""
    later = [(*one, _there(paths, one)) for one in added(paths)]
    return _digest([code_version(), manifest.sha256_file(paths.plan), paths.raw.name, later])


def _there(paths: RunPaths, one: Added) -> list[str]:
    """Return what the files that were added hold now."""
    return [manifest.sha256_file(paths.raw / name) if (paths.raw / name).is_file() else "" for name, _ in one.read]


def _files(paths: RunPaths) -> dict[str, str]:
    """Return what tells every file that the memory relies on: its sha256, of big ones the size and that of the end."""
    files = [*(paths.table(name) for name in TABLES), _trials(paths)]
    sums = {file.relative_to(paths.processed).as_posix(): manifest.sha256_file(file) for file in files}
    big = sorted(paths.requests.iterdir()) if paths.requests.is_dir() else []
    return sums | {f"{paths.requests.name}/{file.name}": _end(file) for file in big}


def _end(file: Path) -> str:
    """Return size and sha256 of the last bytes of a parquet file, where it says what it holds and where."""
    size = file.stat().st_size
    with file.open("rb") as handle:
        handle.seek(max(0, size - END_BYTES))
        return f"{size} {sha256(handle.read()).hexdigest()}"


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
