"""Files of traces that a user has: what they are, what was read from them, and how they are kept with a run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from loadbook.core.errors import DataError, UsageError
from loadbook.core.units import join_words, format_bytes
from loadbook.records.added import AddedTraceFiles, store_added_files
from loadbook.records.layout import Layout, check_name
from loadbook.records.manifest import read_json
from loadbook.traces import kinds
from loadbook.traces.base import Traces
from loadbook.trials.lock import hold_study_lock

MAX_BYTES = 500_000_000
SADF_TIMEOUT_S = 300.0
SYSSTAT = "sysstat"


class HostMetricFiles(NamedTuple):
    """Files of one kind: contents by name to read, and what those were made of."""

    kind: str
    read: dict[str, bytes]
    originals: dict[str, bytes]

    @property
    def traces(self) -> Traces:
        """What is in them."""
        return kinds.read_traces(self.kind, self.read)


def read_metric_files(files: Sequence[Path], kind: str = "auto") -> list[HostMetricFiles]:
    """Read files and find out what they are; sar's binary data become text by the `sadf` that is installed here.

    Raises
    ------
    UsageError : a file is not there, or of no known kind. DataError : `sadf` cannot read it, or nothing is in it.
    """
    if kind not in ("auto", SYSSTAT, *kinds.FORMATS):
        raise UsageError(f"no kind {kind!r} of traces", f"auto, {', '.join([*kinds.FORMATS, SYSSTAT])}")
    contents = {str(path): _read_content(path) for path in files}
    named = {"auto": kinds.files_by_format(contents)}.get(kind, {kind: list(contents)})
    if unknown := named.get(None):
        known_kinds = ", ".join([*kinds.FORMATS, SYSSTAT])
        raise UsageError(f"{join_words(unknown)}: not a file of traces that loadbook knows", f"--kind one of: {known_kinds}")
    found_files = [_metric_files(str(k), {name: contents[name] for name in names}) for k, names in named.items()]
    for metric_files in found_files:
        if not metric_files.traces.rows:
            messages = "; ".join(p.message for p in metric_files.traces.problems[:3])
            raise DataError(f"{join_words(list(metric_files.read))}: read as {metric_files.kind}, nothing usable in it: {messages}")
    return found_files


def _read_content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than {format_bytes(MAX_BYTES)}", "cut it to the time of the run")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _metric_files(kind: str, contents: Mapping[str, bytes]) -> HostMetricFiles:
    plain = {Path(name).name: data for name, data in contents.items()}
    if len(plain) < len(contents):
        raise UsageError("two of the files have one name", "add them one after the other")
    if kind != SYSSTAT:
        return HostMetricFiles(kind, plain, {})
    return HostMetricFiles("sadf-json", {f"{Path(name).name}.json": sadf_json(Path(name)) for name in contents}, plain)


def sadf_json(path: Path) -> bytes:
    """Return what ``sadf -j FILE -- -A`` prints of a binary file of sar's.

    Its format changes with the version of sysstat, so the text is what is kept to be read.
    """
    by_hand = f"export it where it was written: sadf -j {path.name} -- -A >{path.name}.json"
    if shutil.which("sadf") is None:
        raise UsageError(
            f"{path} is binary data of sar, and sadf is not installed here", f"{by_hand}, or install sysstat"
        )
    argv = ["sadf", "-j", str(path.absolute()), "--", "-A"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=SADF_TIMEOUT_S, check=False, env={"LC_ALL": "C", "TZ": "UTC"})
    except (OSError, subprocess.SubprocessError) as error:
        raise DataError(f"sadf could not read {path}: {error}", by_hand) from error
    if b'"timestamp"' not in done.stdout:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise DataError(f"sadf could not read {path}: {lines[0] if lines else 'it printed nothing'}", by_hand)
    return done.stdout


def add_metric_files(
    layout: Layout, study: str, run: str, metric_files: Sequence[HostMetricFiles], host: str, role: str | None, offset_s: float | None
) -> list[AddedTraceFiles]:
    """Keep files with a run: copied, checksummed, in its ledger; the next ingest reads them.

    Raises
    ------
    UsageError : a host that is not of the run, without a role; or the study is in use by a run under way.
    """
    paths = layout.run(study, run)
    hosts = read_json(paths.run_json)["hosts"]
    roles = hosts.get(check_name("host", host), {}).get("roles", [])
    if not role and not roles:
        raise UsageError(
            f"run {run} of {study} has no host {host!r}",
            f"its hosts: {', '.join(hosts)}; of another machine say what it did: --role balancer",
        )
    with hold_study_lock(layout.study_raw(study)):
        return [store_added_files(paths, host, role or roles[0], g.kind, offset_s, g.read, g.originals) for g in metric_files]
