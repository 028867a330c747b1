"""Raw files of a trial, byte for byte as the host sent them: the output of its tool, and every other file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from loadbook.core.errors import DataError, unknown_name_error
from loadbook.core.units import format_bytes
from loadbook.notebook.display import Displayable
from loadbook.report.blocks import Block, note
from loadbook.report.nodes import Column, Definitions, Details, HtmlOnly, Preformatted, Table
from loadbook.store import trial_record
from loadbook.store.paths import RunPaths
from loadbook.store.trial_record import TrialRecord

MAX_BYTES, MAX_LINES = 20_000, 200


@dataclass(frozen=True, repr=False)
class Raw(Displayable):
    """One file of a trial.

    Attributes
    ----------
    record : the trial's record (`store.trial_record.TrialRecord`): argv, clocks, phases, sha256 of every file.
    folder : the trial's folder.
    file : the name of the file in it.
    """

    record: TrialRecord
    folder: Path
    file: str

    @property
    def path(self) -> Path:
        """The file itself."""
        return self.folder / self.file

    @property
    def files(self) -> list[str]:
        """Names of all files of the trial; `run.raw(trial, file)` shows one."""
        return list(self.record.files)

    @property
    def bytes(self) -> bytes:
        """The whole content as it came from the host."""
        return self.path.read_bytes()

    @property
    def text(self) -> str:
        """The whole content as text; bytes that are no UTF-8 are replaced."""
        return self.bytes.decode("utf-8", "replace")

    @cached_property
    def sha256(self) -> str:
        """The sha256 (hex) of the file as it is now; "" where it is gone."""
        return trial_record.sha256_file(self.path) if self.path.is_file() else ""

    @property
    def unchanged(self) -> bool:
        """Whether the file still has the recorded sha256."""
        return self.sha256 == self.record.files[self.file].sha256

    def _block(self) -> Block:
        """Return name, sha256, command and content of a file, and the names of the other files."""
        kept = self.record.files[self.file]
        state = "as recorded" if self.unchanged else "NOT as recorded" if self.sha256 else "gone"
        where = f"{self.record.trial} ({self.record.treatment}, block {self.record.block}, {self.record.status})"
        facts = [
            ("file", f"{self.file}, {format_bytes(kept.size)}"),
            ("of", where),
            *self._command(),
            ("path", str(self.path)),
            ("sha256", f"{self.sha256 or kept.sha256}, {state}"),
        ]
        text, cut = self._start()
        rows = [[name, f"{f.size:,}", f"{f.sha256[:16]}…"] for name, f in self.record.files.items()]
        others = Table("Files", [Column("File"), Column("Bytes", True), Column("sha256")], rows)
        return Block(
            Definitions(facts),
            Preformatted(text) if text else None,
            note(cut) if cut else None,
            HtmlOnly(Details(f"All {len(others.rows)} files of this trial", others)),
        )

    def _command(self) -> list[tuple[str, str]]:
        """Return the command that printed the file, if one of the trial's tools did."""
        drivers = [d for d in self.record.drivers if self.file in (d.stdout, d.stderr, *d.files.values())]
        return [("command", f"{' '.join(d.argv)}  (on {d.host}, exit code {d.rc})") for d in drivers]

    def _start(self) -> tuple[str, str]:
        """Return the beginning of the content, and a note on the rest."""
        if not self.sha256:
            return "", "The file is gone: loadbook verify says what else is."
        with self.path.open("rb") as handle:
            data = handle.read(MAX_BYTES)
        lines = data.decode("utf-8", "replace").split("\n")
        whole = self.path.stat().st_size
        if whole <= MAX_BYTES and len(lines) <= MAX_LINES:
            return ("\n".join(lines), "") if whole else ("", "The file is empty.")
        return "\n".join(lines[:MAX_LINES]), f"The beginning of {format_bytes(whole)}; .text has all of it."


def raw(paths: RunPaths, trial: str, file: str = "") -> Raw:
    """Return a file of a trial, by default the output of its first driver's tool.

    Raises
    ------
    UsageError : no such trial, or it has no such file; the nearest names come first.
    """
    folders = {p.parent.name: p.parent for part in (paths.trials, paths.failed) for p in part.glob("*/trial.json")}
    if trial not in folders:
        raise unknown_name_error("trial", trial, sorted(folders), f"in run {paths.raw.name}")
    folder = folders[trial]
    record = trial_record.read_trial(folder)
    printed = [name for driver in record.drivers for name in (driver.stdout, *driver.files.values())]
    names = [name for name in printed if name in record.files] or list(record.files)
    if (file and file not in record.files) or not names:
        raise unknown_name_error("file", file, record.files, f"of trial {trial}")
    file = file or names[0]
    if not (folder / file).resolve().is_relative_to(folder.resolve()):
        raise DataError(
            f"{folder / trial_record.RECORD_NAME} names a file outside of its folder: {file}", "loadbook verify"
        )
    return Raw(record, folder, file)
