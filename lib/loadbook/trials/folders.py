"""Where the trials of a run lie in data/raw, and whether what lies there is still what was read before.

A folder's identity is made of the size, time of modification, time of change and inode of every file in it. The kernel
sets the time of change (ctime) at every write, rename and change of attributes, and nobody can set it back: equal
identities mean equal bytes, without reading them. What a disk loses by itself only `loadbook verify` finds.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from loadbook.records.layout import RunPaths

ATTEMPT = re.compile(r"(.+)-attempt(\d+)")
# Two changes within one tick of the file system's clock leave the same time. Linux ticks at least 100 times a second;
# times of whole seconds are those of file systems that count in 1 s or 2 s.
TICK_S, COARSE_TICK_S, SECOND_NS = 0.05, 2.1, 1_000_000_000
FileIdentity = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class TrialFolder:
    """The folder of one trial, its size in bytes, and its identity.

    The identity is empty where a later change might leave the same one: such a folder is always read again.
    """

    folder: Path
    size: int
    identity: str


def find_trial_folders(paths: RunPaths, trials: Iterable[str]) -> tuple[dict[str, TrialFolder], list[str]]:
    """Return the folders of those trials that have one, and the names in trials/ that belong to none of them.

    A trial's folder is the published one, else that of its last failed attempt.
    """
    published, failed, names = _subfolder_names(paths.trials), _last_attempts(paths), list(trials)
    folders = {t: paths.trial(t) if t in published else failed[t] for t in names if t in published or t in failed}
    return {trial: _identify(folder) for trial, folder in folders.items()}, sorted(published.difference(names))


def _subfolder_names(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    with os.scandir(folder) as entries:
        return {entry.name for entry in entries if entry.is_dir()}


def _last_attempts(paths: RunPaths) -> dict[str, Path]:
    attempts = sorted((m[1], int(m[2]), m[0]) for name in _subfolder_names(paths.failed) if (m := ATTEMPT.fullmatch(name)))
    return {trial: paths.failed / name for trial, _, name in attempts}


def _identify(folder: Path) -> TrialFolder:
    """Return what a folder holds; one that changed within the last tick is looked at again when that is over."""
    now = time.time()
    try:
        files = sorted(_file_identities(os.fspath(folder)))
        unsafe_s = _unsafe_for_s(files, now)
        if unsafe_s > 0:
            time.sleep(min(unsafe_s, COARSE_TICK_S))
            now = time.time()
            files = sorted(_file_identities(os.fspath(folder)))
    except OSError:  # whoever reads it will say why
        return TrialFolder(folder, 0, "")
    size = sum(size for _, size, *_ in files)
    if _unsafe_for_s(files, now) > 0:  # it goes on changing, or by a clock that is ahead of ours
        return TrialFolder(folder, size, "")
    start = len(os.fspath(folder))
    described = repr([folder.name, *((path[start:], *rest) for path, *rest in files)])
    return TrialFolder(folder, size, blake2b(described.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest())


def _unsafe_for_s(files: Iterable[FileIdentity], now: float) -> float:
    """Return for how many seconds after `now` another change of the newest file might go unseen; 0 or less: none."""
    newest = max((ctime for *_, ctime, _ in files), default=0)
    return newest / SECOND_NS + (TICK_S if newest % SECOND_NS else COARSE_TICK_S) - now


def _file_identities(folder: str) -> Iterator[FileIdentity]:
    """Yield path, size (B), modification and change (ns), and inode of every file below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _file_identities(entry.path)
            else:
                stat = entry.stat()
                yield entry.path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino
