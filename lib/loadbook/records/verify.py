"""Is what was kept still what it was? Every file of a run is hashed again and held against the run's own records.

A trial's files stand in its trial.json; that file, and the files of the run as a whole, stand in the ledger, whose
lines carry checksums of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from loadbook.core.errors import DataError
from loadbook.records import manifest
from loadbook.records.added import EVENT, added_in
from loadbook.records.layout import RunPaths
from loadbook.records.ledger import read_ledger

Kind = Literal["changed", "missing", "extra", "unreadable"]


class Finding(NamedTuple):
    """A file or folder that is not as it was kept."""

    kind: Kind
    path: Path
    message: str = ""


class Account(NamedTuple):
    """What a ledger says: sha256 of trial.json by trial and attempt, and of the run's own files by name.

    None where a ledger is older than that; a run that has not ended has no files of its own. `added` are those of
    traces that were added to it.
    """

    attempts: Mapping[tuple[str, int], str | None]
    own: Mapping[str, str] | None
    added: Mapping[str, str]


@dataclass
class Checked:
    """What was hashed (attempts, files, bytes), what is wrong, and the files that no checksum covers."""

    attempts: int = 0
    files: int = 0
    size: int = 0
    findings: list[Finding] = field(default_factory=list)
    uncovered: list[Path] = field(default_factory=list)

    def found(self, kind: Kind, path: Path, message: str = "") -> None:
        """Note something that is not as it was kept."""
        self.findings.append(Finding(kind, path, message))

    def file(self, path: Path, sha256: str | None) -> None:
        """Hash one file and compare."""
        try:
            now = manifest.sha256_file(path)
            self.files, self.size = self.files + 1, self.size + path.stat().st_size
        except FileNotFoundError:
            self.found("missing", path)
        except OSError as error:
            self.found("unreadable", path, error.strerror or str(error))
        else:
            if sha256 is None:
                self.uncovered.append(path)
            elif now != sha256:
                self.found("changed", path)


def own_files(paths: RunPaths) -> dict[str, str]:
    """Return the sha256 of a run's own files, those of no trial, by name: what the ledger keeps when the run ends."""
    return {p.relative_to(paths.raw).as_posix(): manifest.sha256_file(p) for p in _own(paths)}


def changed_own(paths: RunPaths) -> list[str]:
    """Return the names of a run's own files that are missing or not as its ledger says they were when it ended."""
    account = _account(paths, Checked())
    known = (account.own if account else None) or {}
    return sorted(name for name, sha256 in known.items() if _sha256(paths.raw / name) != sha256)


def attempt_sums(paths: RunPaths) -> dict[str, dict[int, str]]:
    """Return by trial and attempt the sha256 that the ledger has of its trial.json; nothing where it has none."""
    account = _account(paths, Checked())
    found: dict[str, dict[int, str]] = {}
    for (trial, attempt), sha256 in account.attempts.items() if account else ():
        if sha256 is not None:
            found.setdefault(trial, {})[attempt] = sha256
    return found


def _sha256(path: Path) -> str:
    try:
        return manifest.sha256_file(path)
    except OSError:
        return ""


def _own(paths: RunPaths) -> Iterator[Path]:
    for folder in (paths.raw, paths.facts, paths.added):
        if folder.is_dir():
            yield from sorted(p for p in folder.iterdir() if not p.is_dir() and p != paths.ledger)


def verify_run(paths: RunPaths, on_attempt: Callable[[int, int], None] = lambda done, total: None) -> Checked:
    """Hash everything kept of a run again; `on_attempt(done, total)` is told of progress."""
    checked = Checked()
    account = _account(paths, checked)
    folders = sorted(f for kept in (paths.trials, paths.failed) if kept.is_dir() for f in kept.iterdir())
    seen = set()
    for done, folder in enumerate(folders, 1):
        seen.add(_check_attempt(folder, account, checked))
        on_attempt(done, len(folders))
    for trial, attempt in sorted(set(account.attempts if account else ()) - seen):
        checked.found("missing", paths.trial(trial), f"attempt {attempt} ended, says the ledger, and has no folder")
    _check_own(paths, account, checked)
    return checked


def _account(paths: RunPaths, checked: Checked) -> Account | None:
    """Read the ledger; None if it cannot tell."""
    if not paths.ledger.is_file():
        checked.found("missing", paths.ledger)
        return None
    try:
        entries = read_ledger(paths.ledger)
    except (DataError, OSError) as error:
        checked.found("unreadable", paths.ledger, str(error))
        return None
    checked.files, checked.size = 1, paths.ledger.stat().st_size
    attempts = {(e["trial"], e["attempt"]): e.get("sha256") for e in entries if e["event"] == "ended"}
    ours = [entry for entry in entries if entry["event"] != EVENT]
    later = {name: sha256 for one in added_in(entries) for name, sha256 in one.files.items()}
    return Account(attempts, ours[-1].get("files") if ours else None, later)


def _check_attempt(folder: Path, account: Account | None, checked: Checked) -> tuple[str, int] | None:
    """Check the folder of one attempt and return which one it is, None if it does not tell."""
    note = folder / manifest.NAME
    try:
        record = manifest.read(folder)
    except (DataError, OSError) as error:
        checked.found("unreadable" if note.exists() else "missing", note, str(error))
        return None
    key = (record.trial, record.attempt)
    if account and key not in account.attempts:
        checked.found("extra", folder, "the ledger knows of no such attempt")
    checked.attempts += 1
    checked.file(note, account.attempts.get(key) if account else None)
    for name, file in record.files.items():
        checked.file(folder / name, file.sha256)
    known = {note, *(folder / name for name in record.files)}
    for path in sorted({p for p in folder.rglob("*") if not p.is_dir()} - known):
        checked.found("extra", path)
    return key


def _check_own(paths: RunPaths, account: Account | None, checked: Checked) -> None:
    sums, later = (account.own, account.added) if account else (None, {})
    there = {p.relative_to(paths.raw).as_posix(): p for p in _own(paths)}
    for name in sorted({*there, *(sums or {}), *later}):
        known = {**(sums or {}), **later}.get(name)
        unknown = sums is None and (paths.raw / name).parent != paths.added  # added files were always accounted for
        if known or unknown:
            checked.file(paths.raw / name, known)
        else:
            checked.found("extra", there[name])
