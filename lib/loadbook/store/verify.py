"""Checks of a run's files against recorded checksums.

trial.json contains the checksums of a trial's files; the ledger, whose lines have their own checksums, contains those
of trial.json and of the run's other files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from loadbook.core.errors import DataError
from loadbook.store import trial_record
from loadbook.store.ledger import TRACES_ADDED_EVENT, added_files_in, read_ledger
from loadbook.store.paths import RunPaths
from loadbook.store.run_record import read_run_record

FindingKind = Literal["changed", "missing", "extra", "unreadable"]


class IntegrityFinding(NamedTuple):
    """A file or folder that differs from its record."""

    kind: FindingKind
    path: Path
    message: str = ""


class LedgerChecksums(NamedTuple):
    """Checksums in a ledger: sha256 of trial.json by (trial, attempt), sha256 of the run's other files by name.

    A value is None if the ledger has none (older versions); `run_files` is also None before the end of a run.
    `added_trace_files` maps the trace files that were added to the run to sha256. Names are paths below the run's raw
    folder.
    """

    attempts: Mapping[tuple[str, int], str | None]
    run_files: Mapping[str, str] | None
    added_trace_files: Mapping[str, str]


@dataclass
class IntegrityCheck:
    """Result of a check: numbers of attempts, files and bytes (`size`), findings, and files without a checksum.

    The files without a checksum are `uncovered`; they are no findings.
    """

    attempts: int = 0
    files: int = 0
    size: int = 0
    findings: list[IntegrityFinding] = field(default_factory=list)
    uncovered: list[Path] = field(default_factory=list)

    def add_finding(self, kind: FindingKind, path: Path, message: str = "") -> None:
        """Add a finding."""
        self.findings.append(IntegrityFinding(kind, path, message))

    def check_file(self, path: Path, sha256: str | None) -> None:
        """Compare the sha256 of one file with `sha256`; a difference or a missing or unreadable file is a finding.

        With None as `sha256`, the file is added to `uncovered`.
        """
        try:
            now = trial_record.sha256_file(path)
            self.files, self.size = self.files + 1, self.size + path.stat().st_size
        except FileNotFoundError:
            self.add_finding("missing", path)
        except OSError as error:
            self.add_finding("unreadable", path, error.strerror or str(error))
        else:
            if sha256 is None:
                self.uncovered.append(path)
            elif now != sha256:
                self.add_finding("changed", path)


def run_file_checksums(paths: RunPaths) -> dict[str, str]:
    """Return name -> sha256 of the files of a run that belong to no trial; the ledger records them at the run's end."""
    return {p.relative_to(paths.raw).as_posix(): trial_record.sha256_file(p) for p in _run_file_paths(paths)}


def changed_run_files(paths: RunPaths) -> list[str]:
    """Return the names of files outside trial folders that are missing or changed since the run ended.

    It is empty if the ledger has no checksums of them, or is damaged.
    """
    checksums = _read_checksums(paths, IntegrityCheck())
    known = (checksums.run_files if checksums else None) or {}
    return sorted(
        name
        for name, sha256 in known.items()
        if not (paths.raw / name).is_file() or trial_record.sha256_file(paths.raw / name) != sha256
    )


def missing_ledger_lines(paths: RunPaths) -> str:
    """Return a text on what shows that the last lines of a ledger are missing; "" if nothing does."""
    try:
        entries = read_ledger(paths.ledger)
        ended = read_run_record(paths).ended is not None
    except (DataError, OSError):
        return ""  # other functions report damaged files
    known = {entry["trial"] for entry in entries if "trial" in entry}
    trials = sorted(p.name for p in paths.trials.iterdir()) if paths.trials.is_dir() else []
    if unknown := [name for name in trials if not name.startswith(".") and name not in known]:
        return f"knows nothing of {len(unknown)} of {len(trials)} trials that are there ({unknown[0]}, ...)"
    if ended and not any(entry["event"] == "run-ended" for entry in entries):
        return "does not say that the run ended, though run.json does"
    return ""


def attempt_checksums(paths: RunPaths) -> dict[str, dict[int, str]]:
    """Return trial -> attempt -> sha256 of its trial.json, as recorded in the ledger.

    It is empty if the ledger is missing, damaged, or has none.
    """
    ledger_checksums = _read_checksums(paths, IntegrityCheck())
    checksums: dict[str, dict[int, str]] = {}
    for (trial, attempt), sha256 in ledger_checksums.attempts.items() if ledger_checksums else ():
        if sha256 is not None:
            checksums.setdefault(trial, {})[attempt] = sha256
    return checksums


def _run_file_paths(paths: RunPaths) -> Iterator[Path]:
    for folder in (paths.raw, paths.facts, paths.added_files):
        if folder.is_dir():
            yield from sorted(p for p in folder.iterdir() if not p.is_dir() and p != paths.ledger)


def verify_run(paths: RunPaths, on_attempt: Callable[[int, int], None] = lambda done, total: None) -> IntegrityCheck:
    """Compare all files of a run with their checksums; `on_attempt(done, total)` is called after each attempt."""
    checked = IntegrityCheck()
    checksums = _read_checksums(paths, checked)
    folders = sorted(f for parent in (paths.trials, paths.failed) if parent.is_dir() for f in parent.iterdir())
    seen_attempts = set()
    for done, folder in enumerate(folders, 1):
        seen_attempts.add(_check_attempt(folder, checksums, checked))
        on_attempt(done, len(folders))
    for trial, attempt in sorted(set(checksums.attempts if checksums else ()) - seen_attempts):
        message = f"attempt {attempt} ended, says the ledger, and has no folder"
        checked.add_finding("missing", paths.trial(trial), message)
    _check_run_files(paths, checksums, checked)
    return checked


def _read_checksums(paths: RunPaths, checked: IntegrityCheck) -> LedgerChecksums | None:
    """Read the checksums of the ledger; None if it is damaged."""
    if not paths.ledger.is_file():
        checked.add_finding("missing", paths.ledger)
        return None
    try:
        entries = read_ledger(paths.ledger)
    except (DataError, OSError) as error:
        checked.add_finding("unreadable", paths.ledger, str(error))
        return None
    checked.files, checked.size = 1, paths.ledger.stat().st_size
    attempts = {(e["trial"], e["attempt"]): e.get("sha256") for e in entries if e["event"] == "ended"}
    entries_of_run = [entry for entry in entries if entry["event"] != TRACES_ADDED_EVENT]
    added_files = {name: sha256 for added in added_files_in(entries) for name, sha256 in added.files.items()}
    return LedgerChecksums(attempts, entries_of_run[-1].get("files") if entries_of_run else None, added_files)


def _check_attempt(folder: Path, checksums: LedgerChecksums | None, checked: IntegrityCheck) -> tuple[str, int] | None:
    """Check the folder of one attempt; return its trial and number, or None without a readable record."""
    record_path = folder / trial_record.RECORD_NAME
    try:
        record = trial_record.read_trial(folder)
    except (DataError, OSError) as error:
        checked.add_finding("unreadable" if record_path.exists() else "missing", record_path, str(error))
        return None
    key = (record.trial, record.attempt)
    if checksums and key not in checksums.attempts:
        checked.add_finding("extra", folder, "the ledger knows of no such attempt")
    checked.attempts += 1
    checked.check_file(record_path, checksums.attempts.get(key) if checksums else None)
    for name, file in record.files.items():
        checked.check_file(folder / name, file.sha256)
    known = {record_path, *(folder / name for name in record.files)}
    for path in sorted({p for p in folder.rglob("*") if not p.is_dir()} - known):
        checked.add_finding("extra", path)
    return key


def _check_run_files(paths: RunPaths, checksums: LedgerChecksums | None, checked: IntegrityCheck) -> None:
    run_files, trace_files = (checksums.run_files, checksums.added_trace_files) if checksums else (None, {})
    paths_by_name = {p.relative_to(paths.raw).as_posix(): p for p in _run_file_paths(paths)}
    for name in sorted({*paths_by_name, *(run_files or {}), *trace_files}):
        known = {**(run_files or {}), **trace_files}.get(name)
        # added files have been recorded since they were introduced
        unknown = run_files is None and (paths.raw / name).parent != paths.added_files
        if known or unknown:
            checked.check_file(paths.raw / name, known)
        else:
            checked.add_finding("extra", paths_by_name[name])
