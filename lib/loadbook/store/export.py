"""Exports of a run: tar archive with a manifest, tidy CSV file for spreadsheets, Go's benchmark format for benchstat.

An archive contains the run's raw files, tables, executed notebooks and pages. When it is opened, only raw files are
taken from it and checked: notebooks and pages are code, so they are not used; tables are rebuilt, and their checksums
compared with those in the archive.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loadbook.core.errors import DataError, UsageError
from loadbook.core.metrics import get_metric
from loadbook.core.units import format_bytes, pluralize
from loadbook.store.atomic import atomic_path, move_folder
from loadbook.store.paths import Layout, RunPaths, check_name
from loadbook.store.tables import TablesMaker, tables_maker
from loadbook.store.trial_record import sha256_file

if TYPE_CHECKING:
    from loadbook.store.tables import RunData

ARCHIVE_SUFFIX = ".loadbook.tar.gz"
MANIFEST_NAME = "manifest.json"
ARCHIVE_FOLDERS = ("raw", "tables", "notebooks", "pages")
MAX_MANIFEST_BYTES = 64 << 20
CHUNK_BYTES = 1 << 20
FileProgress = Callable[[int, int], None]


class ArchiveEntry(BaseModel):
    """Size (bytes) and sha256 of one file in an archive."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    size: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class ArchiveManifest(BaseModel):
    """Content of an archive's manifest.json; `files` is keyed by path below raw/, tables/, notebooks/ or pages/.

    `tables_by` is what made the tables; archives of earlier versions have none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    study: str
    run: str
    loadbook_version: str
    tables_by: TablesMaker | None = None
    files: dict[str, ArchiveEntry]

    def files_below(self, folder: str) -> dict[str, ArchiveEntry]:
        """Return the files of one folder, by path in it."""
        return {name.removeprefix(f"{folder}/"): e for name, e in self.files.items() if name.startswith(f"{folder}/")}


def pack_run(
    paths: RunPaths, pages: Mapping[str, Path], version: str, out: Path, on_file: FileProgress
) -> ArchiveManifest:
    """Write the archive of a run to `out`, completely or not at all; equal files give equal bytes.

    `pages` maps name -> file of the run's HTML pages, `version` is the version of loadbook; `on_file` is called with
    (number of files written, number of all files). UsageError: `out` already exists.
    """
    if out.exists():
        raise UsageError(f"{out} is there already", "name another file: --out")
    files = dict(sorted(_archive_sources(paths, pages)))
    entries = {name: ArchiveEntry(size=p.stat().st_size, sha256=sha256_file(p)) for name, p in files.items()}
    contents = ArchiveManifest(
        study=paths.raw.parent.name, run=paths.raw.name, loadbook_version=version, tables_by=tables_maker(paths),
        files=entries,
    )  # fmt: skip
    with atomic_path(out) as part, part.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
        _write_members(packed, contents, files, on_file)
    return contents


def _archive_sources(paths: RunPaths, pages: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
    folders = {"raw": paths.raw, "tables": paths.processed, "notebooks": paths.processed / "notebooks"}
    for kind, folder in folders.items():
        for path in folder.rglob("*") if kind == "raw" else folder.glob("*"):
            name = path.relative_to(folder)
            if path.is_file() and not path.is_symlink() and not any(part.startswith(".") for part in name.parts):
                yield f"{kind}/{name.as_posix()}", path
    yield from ((f"pages/{name}", path) for name, path in pages.items())


def _write_members(
    packed: gzip.GzipFile, contents: ArchiveManifest, files: Mapping[str, Path], on_file: FileProgress
) -> None:
    """Write the manifest, then every file, without owners and times."""
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        text = json.dumps(contents.model_dump(), indent=1).encode()
        tar.addfile(_tar_member(MANIFEST_NAME, len(text)), io.BytesIO(text))
        for done, (name, path) in enumerate(files.items(), 1):
            with path.open("rb") as file:
                tar.addfile(_tar_member(name, contents.files[name].size), file)
            on_file(done, len(files))


def _tar_member(name: str, length: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = length, 0o644
    return info


def unpack_run(archive: Path, layout: Layout, on_file: FileProgress) -> tuple[ArchiveManifest, bool]:
    """Unpack the raw files of an archive into data/raw; return its manifest, and whether the run is new here.

    DataError: not an archive of loadbook, or a file is missing, of a wrong kind, or not as the manifest states; nothing
    is kept then. UsageError: data/raw already has a different run of that name. `on_file` is called with (number of
    raw files read, number of all).
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            contents = _read_manifest(archive, tar)
            paths = layout.run(check_name("study", contents.study), check_name("run", contents.run))
            if paths.raw.exists():
                _check_same_run(contents, paths)
                _extract_raw_files(archive, tar, contents, None, on_file)
                return contents, False
            _check_disk_space(contents, layout)
            part = paths.raw.with_name(f".{contents.run}.part")
            try:
                _extract_raw_files(archive, tar, contents, part, on_file)
                move_folder(part, paths.raw)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, OSError) as error:
        if isinstance(error, OSError) and error.filename and Path(error.filename) != archive:
            raise
        raise DataError(f"{archive}: cannot be read as an archive: {error}", "was it sent whole?") from error
    return contents, True


def _read_manifest(archive: Path, tar: tarfile.TarFile) -> ArchiveManifest:
    first = tar.next()
    is_manifest = first and first.name == MANIFEST_NAME and first.size <= MAX_MANIFEST_BYTES
    file = tar.extractfile(first) if first and is_manifest else None
    if file is None:
        hint = f"loadbook export makes archives: *{ARCHIVE_SUFFIX}"
        raise DataError(f"{archive}: does not begin with {MANIFEST_NAME}", hint)
    try:
        contents = ArchiveManifest.model_validate_json(file.read())
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise DataError(f"{archive}: {MANIFEST_NAME}: {where}: {problem['msg']}") from error
    for name in contents.files:
        is_plain = name.isprintable() and "\\" not in name and not {"..", ".", ""} & {*name.split("/")}
        if not is_plain or name.partition("/")[0] not in ARCHIVE_FOLDERS:
            raise DataError(f"{archive}: {MANIFEST_NAME}: {name!r} lies in no folder of an archive")
    return contents


def _check_same_run(contents: ArchiveManifest, paths: RunPaths) -> None:
    existing = {p.relative_to(paths.raw).as_posix(): p for p in paths.raw.rglob("*") if p.is_file()}
    sent = contents.files_below("raw")
    differs = [name for name in {*existing, *sent} if name not in existing or name not in sent]
    differs += [name for name in {*existing} & {*sent} if sha256_file(existing[name]) != sent[name].sha256]
    if differs:
        problem = f"run {contents.run} of {contents.study} is here already, and {len(differs)} files of it differ"
        raise UsageError(f"{problem}: {sorted(differs)[0]}", f"move it away first: {paths.raw}")


def _check_disk_space(contents: ArchiveManifest, layout: Layout) -> None:
    needed, free = sum(e.size for e in contents.files_below("raw").values()), shutil.disk_usage(layout.root).free
    if free < needed:
        sizes = f"{format_bytes(free)} free, the archive's raw files take {format_bytes(needed)}"
        raise DataError(f"{layout.root}: {sizes}")


def _extract_raw_files(
    archive: Path, tar: tarfile.TarFile, contents: ArchiveManifest, part: Path | None, on_file: FileProgress
) -> None:
    """Write the raw files to the folder `part`; if it is None, only check them against the manifest."""
    if part:
        shutil.rmtree(part, ignore_errors=True)
    pending = dict(contents.files_below("raw"))
    total = len(pending)
    for member in itertools.islice(tar, 1, None):
        name = member.name.removeprefix("raw/")
        if member.name not in contents.files:
            raise DataError(f"{archive}: holds {member.name!r}, of which {MANIFEST_NAME} says nothing")
        if not member.isreg():
            raise DataError(f"{archive}: {member.name!r} is no plain file")
        if name == member.name:
            continue
        if name not in pending:
            raise DataError(f"{archive}: {member.name!r} is there twice")
        _extract_file(archive, tar, member, pending.pop(name), part and part / name)
        on_file(total - len(pending), total)
    if pending:
        raise DataError(
            f"{archive}: lacks {pluralize(len(pending), 'file')}: {next(iter(pending))!r}", "was it sent whole?"
        )


def _extract_file(
    archive: Path, tar: tarfile.TarFile, member: tarfile.TarInfo, entry: ArchiveEntry, out: Path | None
) -> None:
    source = tar.extractfile(member)
    if source is None or member.size != entry.size:
        raise DataError(f"{archive}: {member.name!r} has not the size that {MANIFEST_NAME} says")
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with out.open("xb") if out else Path(os.devnull).open("wb") as file:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != entry.sha256:
        raise DataError(f"{archive}: {member.name!r} is not as {MANIFEST_NAME} says: its sha256 differs")


def differing_tables(contents: ArchiveManifest, paths: RunPaths) -> list[str]:
    """Return the file names of rebuilt tables that are missing, or differ from the archive's in any byte."""
    sent = {name: e.sha256 for name, e in contents.files_below("tables").items() if name.endswith(".parquet")}
    files = {name: paths.processed / name for name in sent}
    return sorted(n for n, file in files.items() if not file.is_file() or sha256_file(file) != sent[n])


FORMULA_START = re.compile(r"[=+\-@\t\r]")  # a spreadsheet interprets a text that begins so as a formula


def tidy_csv(data: RunData) -> str:
    """Return CSV text with one row per trial, driver, metric and statistic, and the columns of the trials table.

    A trial without measurements has one row; the rules that a trial violated are separated by spaces.

    Values are in base units (s, B, 1/s, 1). A text that a spreadsheet would take for a formula gets an apostrophe.
    """
    of_trial = data.trials.drop(columns=["study", "run"]).rename(columns={"started": "started_s"})
    of_trial["gates"] = [" ".join(gates) for gates in of_trial["gates"]]
    rows = of_trial.merge(data.measurements.drop(columns="text"), on="trial", how="left", validate="one_to_many")
    first = ["study", "run", "trial", "treatment", "block", "slot", "valid", "metric", "statistic", "value", "unit"]
    rest = [name for name in rows.columns if name not in first]
    rows = rows.assign(study=data.study.name, run=data.run)[[*first, *rest]]
    for name in rows.select_dtypes(["object", "string"]).columns:
        rows[name] = rows[name].map(lambda t: f"'{t}" if isinstance(t, str) and FORMULA_START.match(t) else t)
    return str(rows.sort_values(["slot", "driver", "metric", "statistic"]).to_csv(index=False, lineterminator="\n"))


def go_benchmark_text(data: RunData, metric: str) -> str:
    """Return valid trials as a Go benchmark, one line per trial (golang.org/design/14313-benchmark-format).

    `benchstat -col /treatment FILE` compares them, without blocks, margins and validity rules; it reads the better
    direction of a unit from the `Unit` line. Values are in the metric's base unit. UsageError: no valid trial has
    the metric.
    """
    definition = get_metric(metric)
    values = data.values(metric)
    counted = values[values["valid"] & (values["status"] == "ok")].dropna(subset=["value"])
    if counted.empty:
        raise UsageError(f"no trial of run {data.run} that counts has the metric {metric}", "loadbook report shows why")
    unit_line = f"Unit {metric} better={definition.better}" if definition.better in ("higher", "lower") else ""
    head = [f"study: {data.study.name}", f"run: {data.run}", unit_line]
    pairs = zip(counted["treatment"], counted["value"], strict=True)
    lines = [f"BenchmarkTrial/treatment={treatment} 1 {value:.9g} {metric}" for treatment, value in pairs]
    return "\n".join([*filter(None, head), "", *lines, ""])
