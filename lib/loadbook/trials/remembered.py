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
from loadbook.records.added import AddedTraceFiles, read_added_files
from loadbook.records.layout import RunPaths
from loadbook.records.schema import TABLES, write_arrow
from loadbook.trials.folders import TrialFolder
from loadbook.trials.reading import TRIAL_TABLES, IngestedTrial
from loadbook.trials.versions import code_version

if TYPE_CHECKING:
    import pyarrow as pa

CACHE_COLUMNS = ("trial", "identity", "record", "said")
TAIL_BYTES = 1 << 16


@dataclass(frozen=True)
class IngestCache:
    """A memory that counts.

    `state` tells which raw data the tables show (see `raw_state`), `summary` is what was said of them.
    """

    paths: RunPaths
    state: str
    summary: dict[str, Any]

    def unchanged_trials(self, folders: Mapping[str, TrialFolder]) -> dict[str, IngestedTrial]:
        """Return what is known of the trials whose folders are unchanged."""
        import pyarrow.parquet as pq

        rows = pq.read_table(_cache_table(self.paths)).to_pylist()
        same = [row for row in rows if row["trial"] in folders and row["identity"] == folders[row["trial"]].identity != ""]
        return {row["trial"]: IngestedTrial(row["record"], **json.loads(row["said"])) for row in same}

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables of which every row belongs to one trial."""
        import pyarrow.parquet as pq

        return {name: pq.read_table(self.paths.table(name)) for name in TRIAL_TABLES}


def raw_state(paths: RunPaths, folders: Mapping[str, TrialFolder], more: Any) -> str:
    """Return a digest of all that tables are made of; empty if some of it cannot be told from a later change.

    `more` is what else they show, as values of JSON.
    """
    identities = {trial: folder.identity for trial, folder in folders.items()}
    return "" if "" in identities.values() else _json_digest([_basis_digest(paths), identities, more])


def load_cache(paths: RunPaths) -> IngestCache | None:
    """Return the memory of a run, None if there is none that counts."""
    try:
        cached = manifest.read_json(_cache_file(paths))
        digest = cached.pop("digest")
        if digest == _json_digest(cached) and cached["basis"] == _basis_digest(paths) and cached["files"] == _table_sums(paths):
            return IngestCache(paths, cached["state"], cached["summary"])
    except (DataError, OSError, AttributeError, KeyError, TypeError):
        pass
    return None


def save_cache(
    paths: RunPaths, state: str, summary: dict[str, Any], folders: Mapping[str, TrialFolder], ingested: Mapping[str, IngestedTrial]
) -> None:
    """Keep what was found, now that the tables are written."""
    import pyarrow as pa

    rows = [(t, folders[t].identity, trial.record, _trial_json(trial)) for t, trial in sorted(ingested.items())]
    columns = zip(*rows, strict=True) if rows else [[]] * len(CACHE_COLUMNS)
    types = pa.schema([(name, pa.large_string()) for name in CACHE_COLUMNS])
    write_arrow(_cache_table(paths), pa.table([pa.array(c, pa.large_string()) for c in columns], schema=types))
    cached = {"basis": _basis_digest(paths), "state": state, "summary": summary, "files": _table_sums(paths)}
    manifest.write_json(_cache_file(paths), cached | {"digest": _json_digest(cached)})


def _trial_json(trial: IngestedTrial) -> str:
    return json.dumps({name: value for name, value in asdict(trial).items() if name != "record"})


def _cache_file(paths: RunPaths) -> Path:
    return paths.ingest_cache / "memory.json"


def _cache_table(paths: RunPaths) -> Path:
    return paths.ingest_cache / "trials.parquet"


def _basis_digest(paths: RunPaths) -> str:
    """Return a digest of what decides beside the trials: the code, the plan, the run's name, traces that were added."""
    later = [(*added, _added_file_sums(paths, added)) for added in read_added_files(paths)]
    return _json_digest([code_version(), manifest.sha256_file(paths.plan_json), paths.raw.name, later])


def _added_file_sums(paths: RunPaths, added: AddedTraceFiles) -> list[str]:
    """Return what the files that were added hold now."""
    return [manifest.sha256_file(paths.raw / name) if (paths.raw / name).is_file() else "" for name, _ in added.parsed_files]


def _table_sums(paths: RunPaths) -> dict[str, str]:
    """Return what tells every file that the memory relies on: its sha256, of big ones the size and that of the end."""
    files = [*(paths.table(name) for name in TABLES), _cache_table(paths)]
    sums = {file.relative_to(paths.processed).as_posix(): manifest.sha256_file(file) for file in files}
    big = sorted(paths.request_logs.iterdir()) if paths.request_logs.is_dir() else []
    return sums | {f"{paths.request_logs.name}/{file.name}": _tail_digest(file) for file in big}


def _tail_digest(file: Path) -> str:
    """Return size and sha256 of the last bytes of a parquet file, where it says what it holds and where."""
    size = file.stat().st_size
    with file.open("rb") as handle:
        handle.seek(max(0, size - TAIL_BYTES))
        return f"{size} {sha256(handle.read()).hexdigest()}"


def _json_digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
