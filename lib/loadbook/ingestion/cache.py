"""Trial folders of a run, and the cache of the last ingest, so that only new or changed folders are read.

The identity of a folder consists of size, modification time, change time (ctime) and inode of every file. The kernel
sets ctime at every write and rename, and it cannot be set back, so equal identities mean equal bytes. Damage by the
disk itself is found only by `loadbook verify`. The cache contains each folder's identity and the results that are not
in the tables; it is used only with the same plan, code and tables, and ignored if damaged.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b, sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.core import clock
from loadbook.core.errors import DataError
from loadbook.ingestion.workers import TRIAL_TABLES, IngestedTrial, code_version
from loadbook.store import trial_record
from loadbook.store.ledger import read_added_files
from loadbook.store.paths import RunPaths
from loadbook.store.tables import TABLES, write_arrow

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPT = re.compile(r"(.+)-attempt(\d+)")
# Two changes within one tick of the file system's clock have the same time. Linux has at least 100 ticks a second; file
# systems that count in 1 s or 2 s have times in whole seconds.
TICK_S, COARSE_TICK_S, SECOND_NS = 0.05, 2.1, 1_000_000_000
FileIdentity = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class TrialFolder:
    """Folder of one trial, its size in bytes, and its identity.

    The identity is empty if a later change might not alter it; such a folder is always read again.
    """

    folder: Path
    size: int
    identity: str


def find_trial_folders(paths: RunPaths, trials: Iterable[str]) -> tuple[dict[str, TrialFolder], list[str]]:
    """Return trial -> folder, and the names in trials/ that belong to no planned trial.

    The folder of a trial is the published one, or else that of its last failed attempt.
    """
    attempts = sorted(
        (m[1], int(m[2]), m[0]) for name in _subfolder_names(paths.failed) if (m := ATTEMPT.fullmatch(name))
    )
    failed = {trial: paths.failed / name for trial, _, name in attempts}
    published, names = _subfolder_names(paths.trials), list(trials)
    folders = {t: paths.trial(t) if t in published else failed[t] for t in names if t in published or t in failed}
    return {trial: _identify(folder) for trial, folder in folders.items()}, sorted(published.difference(names))


def _subfolder_names(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    with os.scandir(folder) as entries:
        return {entry.name for entry in entries if entry.is_dir()}


def _identify(folder: Path) -> TrialFolder:
    """Return a trial's folder with its identity; wait, if necessary, until the current clock tick is over."""
    now = clock.now()
    try:
        files = sorted(_file_identities(os.fspath(folder)))
        unsafe_s = _unsafe_for_s(files, now)
        if unsafe_s > 0:
            clock.sleep(min(unsafe_s, COARSE_TICK_S))
            now = clock.now()
            files = sorted(_file_identities(os.fspath(folder)))
    except OSError:  # the reason is reported when the folder is read
        return TrialFolder(folder, 0, "")
    size = sum(size for _, size, *_ in files)
    if _unsafe_for_s(files, now) > 0:  # it is still being changed, or its clock is ahead of this host's
        return TrialFolder(folder, size, "")
    start = len(os.fspath(folder))
    described = repr([folder.name, *((path[start:], *rest) for path, *rest in files)])
    return TrialFolder(folder, size, blake2b(described.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest())


def _unsafe_for_s(files: Iterable[FileIdentity], now: float) -> float:
    """Return for how many seconds after `now` a change of the newest file might go unnoticed."""
    newest = max((ctime for *_, ctime, _ in files), default=0)
    return newest / SECOND_NS + (TICK_S if newest % SECOND_NS else COARSE_TICK_S) - now


def _file_identities(folder: str) -> Iterator[FileIdentity]:
    """Yield path, size (B), modification and change time (ns), and inode of every file below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _file_identities(entry.path)
            else:
                stat = entry.stat()
                yield entry.path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


CACHE_COLUMNS = ("trial", "identity", "record", "result")
TAIL_BYTES = 1 << 16


@dataclass(frozen=True)
class IngestCache:
    """Valid cache of a run; `state` is the `raw_state` from which the tables were made.

    `summary` is the summary that `write_tables` returned.
    """

    paths: RunPaths
    state: str
    summary: dict[str, Any]

    def unchanged_trials(self, folders: Mapping[str, TrialFolder]) -> dict[str, IngestedTrial]:
        """Return trial -> cached result of the trials whose folders (trial -> folder) are unchanged."""
        import pyarrow.parquet as pq

        rows = pq.read_table(_cache_table(self.paths)).to_pylist()
        known = {trial: folder.identity for trial, folder in folders.items() if folder.identity}
        same = [row for row in rows if row["identity"] == known.get(row["trial"])]
        return {row["trial"]: IngestedTrial(row["record"], **json.loads(row["result"])) for row in same}

    def tables(self) -> dict[str, pa.Table]:
        """Return name -> table of measurements, samples and traces, as the last ingest wrote them."""
        import pyarrow.parquet as pq

        return {name: pq.read_table(self.paths.table(name)) for name in TRIAL_TABLES}


def raw_state(paths: RunPaths, folders: Mapping[str, TrialFolder], more: Any) -> str:
    """Return a digest of all raw data behind the tables; empty if a later change might go unnoticed.

    `more` contains further inputs, as JSON values.
    """
    identities = {trial: folder.identity for trial, folder in folders.items()}
    return "" if "" in identities.values() else _json_digest([_basis_digest(paths), identities, more])


def load_cache(paths: RunPaths) -> IngestCache | None:
    """Return the cache of a run; None if there is no valid one."""
    try:
        cached = trial_record.read_json(_cache_file(paths))
        digest = cached.pop("digest")
        if (
            digest == _json_digest(cached)
            and cached["basis"] == _basis_digest(paths)
            and cached["files"] == _table_sums(paths)
        ):
            return IngestCache(paths, cached["state"], cached["summary"])
    except (DataError, OSError, AttributeError, KeyError, TypeError):
        pass
    return None


def save_cache(
    paths: RunPaths,
    state: str,
    summary: dict[str, Any],
    folders: Mapping[str, TrialFolder],
    ingested: Mapping[str, IngestedTrial],
) -> None:
    """Write the cache of an ingest; the tables must have been written before, as it contains their checksums.

    `state` is the `raw_state` of the data, `summary` the result of `write_tables`; `folders` and `ingested` are keyed
    by trial.
    """
    import pyarrow as pa

    rows = []
    for name, trial in sorted(ingested.items()):
        result = {key: value for key, value in asdict(trial).items() if key != "record"}
        values = (name, folders[name].identity, trial.record, json.dumps(result))
        rows.append(dict(zip(CACHE_COLUMNS, values, strict=True)))
    types = pa.schema([(name, pa.large_string()) for name in CACHE_COLUMNS])
    write_arrow(_cache_table(paths), pa.Table.from_pylist(rows, schema=types))
    cached = {"basis": _basis_digest(paths), "state": state, "summary": summary, "files": _table_sums(paths)}
    cached["made_by"] = {"version": version("loadbook"), "code": code_version()}
    trial_record.write_json(_cache_file(paths), cached | {"digest": _json_digest(cached)})


def _cache_file(paths: RunPaths) -> Path:
    return paths.ingest_cache / "memory.json"


def _cache_table(paths: RunPaths) -> Path:
    return paths.ingest_cache / "trials.parquet"


def _basis_digest(paths: RunPaths) -> str:
    """Return a digest of the inputs outside trial folders: code, plan, the run's name, added files."""
    later = []
    for added in read_added_files(paths):
        files = [paths.raw / name for name, _ in added.parsed_files]
        later.append((*added, [trial_record.sha256_file(file) if file.is_file() else "" for file in files]))
    return _json_digest([code_version(), trial_record.sha256_file(paths.plan_json), paths.raw.name, later])


def _table_sums(paths: RunPaths) -> dict[str, str]:
    """Return name -> sha256 of each table; for large tables size and sha256 of the end."""
    files = [*(paths.table(name) for name in TABLES), _cache_table(paths)]
    sums = {file.relative_to(paths.processed).as_posix(): trial_record.sha256_file(file) for file in files}
    for file in sorted(paths.request_logs.iterdir()) if paths.request_logs.is_dir() else ():
        size = file.stat().st_size
        with file.open("rb") as handle:
            handle.seek(max(0, size - TAIL_BYTES))  # the end of a parquet file describes its content
            sums[f"{paths.request_logs.name}/{file.name}"] = f"{size} {sha256(handle.read()).hexdigest()}"
    return sums


def _json_digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
