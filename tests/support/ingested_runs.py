"""A recorded run that is ingested, and what that writes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from loadbook.store.paths import RunPaths
from recorded_run import STUDY, copy_recorded_run


def run_paths(root: Path) -> RunPaths:
    """Make a project with the recorded run, and return the paths of the run."""
    layout = copy_recorded_run(root)
    return layout.run(STUDY, layout.resolve_run(STUDY))


def everything(paths: RunPaths) -> dict[str, str]:
    """Return the digest of every file in data/processed: tables and memory."""
    files = sorted(p for p in paths.processed.rglob("*") if p.is_file())
    return {str(p.relative_to(paths.processed)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
