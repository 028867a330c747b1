"""A project on a small file system that tests fill up: `python small_disk.py FOLDER BYTES SCRIPT ARGUMENT...`.

In separate namespaces (unshare), which need no root and hide it from other processes, a tmpfs of BYTES bytes is mounted
on FOLDER; then SCRIPT, a function of this module, is called with FOLDER and the arguments.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__)
SPACES = ["unshare", "--user", "--map-root-user", "--mount"]
FILLER = "filler"


def may_be() -> bool:
    """Return whether this machine permits mounting a tmpfs in a user namespace."""
    return shutil.which("unshare") is not None and not subprocess.run([*SPACES, "true"], capture_output=True).returncode


def on_small_disk(folder: Path, size: int, script: str, *arguments: str) -> dict[str, Any]:
    """Call a function of this module on a disk of `size` bytes; return the last line that it printed, as JSON."""
    folder.mkdir(exist_ok=True)
    mount = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && shift 2 && exec "$@"'
    command = [*SPACES, "sh", "-c", mount, "sh", str(size), str(folder), sys.executable, str(HERE), script, str(folder)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def fill(folder: Path) -> None:
    """Write a file until the disk is full."""
    with (folder / FILLER).open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue


def command(folder: Path, *words: str) -> tuple[int, str]:
    """Call `loadbook WORDS` in the folder and return its exit code and its stderr."""
    import contextlib
    import io

    from loadbook.cli import main

    os.environ["LOADBOOK_HOME"] = str(folder / "home")
    sys.argv = ["loadbook", *words]
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0), printed.getvalue()
    return 0, printed.getvalue()


def filled_at(folder: Path, place: str, nth: int) -> Callable[[], None]:
    """Fill the disk at the nth call of the function `place` (`module:Class.name`); return a function that undoes it."""
    import importlib

    module, _, path = place.partition(":")
    owner: Any = importlib.import_module(module)
    *above, name = path.split(".")
    for part in above:
        owner = getattr(owner, part)
    before, calls = getattr(owner, name), []

    def called(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == nth:
            fill(folder)
        return before(*given, **named)

    setattr(owner, name, called)
    return lambda: setattr(owner, name, before)


def project(folder: Path) -> Any:
    from recorded_run import copy_recorded_run

    return copy_recorded_run(folder)


def snapshot(folder: Path) -> dict[str, str]:
    """Return {path: sha256} of every file."""
    from loadbook.store.trial_record import sha256_file

    return {str(p.relative_to(folder)): sha256_file(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def run_on_a_full_disk(folder: Path, place: str, nth: str) -> None:
    """Replay the recorded run with a disk that is full from the nth call of `place` on, then again with free space."""
    from recorded_run import STUDY, run_of

    layout = project(folder)
    recorded = run_of(layout)
    before = snapshot(recorded)
    words = ["run", STUDY, "--new", "--blocks", "2", "--hosts", str(recorded / "hosts.toml")]
    undo = filled_at(folder, place, int(nth))
    code, printed = command(folder, *words)
    undo()
    names = [p.name for p in layout.study_raw(STUDY).rglob("*") if p.name != FILLER]
    published = published_trials(layout)
    (folder / FILLER).unlink()
    again, more = command(folder, *[word for word in words if word != "--new"])
    print(json.dumps({
        "code": code, "said": printed, "again": again, "more": more, "parts": [n for n in names if n.endswith(".part")],
        "published": published, "old_changed": before != snapshot(recorded),
        "runs": layout.runs(STUDY), "verify": command(folder, "verify", STUDY), "states": states_of(layout),
    }))  # fmt: skip


def published_trials(layout: Any) -> list[str]:
    """Return the published trials, after verification of their checksums."""
    from loadbook.store import trial_record
    from recorded_run import STUDY

    found = []
    for folder in sorted(layout.run(STUDY, layout.runs(STUDY)[-1]).trials.glob("*")):
        assert not trial_record.changed_files(folder, trial_record.read_trial(folder))
        found.append(folder.name)
    return found


def states_of(layout: Any) -> dict[str, str]:
    from loadbook.store.ledger import read_ledger, trial_states
    from recorded_run import STUDY

    paths = layout.run(STUDY, layout.runs(STUDY)[-1])
    return {trial: state.status for trial, state in trial_states(read_ledger(paths.ledger)).items()}


def ingest_on_a_full_disk(folder: Path, place: str, nth: str) -> None:
    """Make the tables, change their raw data, and make them again on a full disk."""
    from recorded_run import STUDY

    layout = project(folder)
    assert command(folder, "ingest", STUDY)[0] == 0
    tables = layout.run(STUDY, layout.runs(STUDY)[-1]).processed
    before = snapshot(tables)
    shutil.rmtree(tables / ".ingest")
    undo = filled_at(folder, place, int(nth))
    code, printed = command(folder, "ingest", STUDY)
    undo()
    kept = {name: digest for name, digest in snapshot(tables).items() if not name.startswith(".ingest")}
    (folder / FILLER).unlink()
    again, more = command(folder, "ingest", STUDY)
    print(json.dumps({
        "code": code, "said": printed, "again": again, "more": more, "same": snapshot(tables) == before,
        "whole": all(kept[name] == before[name] for name in kept), "left": sorted(kept),
    }))  # fmt: skip


def report_on_a_full_disk(folder: Path, place: str, nth: str) -> None:
    """Make the report, then make it again on a full disk."""
    from recorded_run import STUDY

    layout = project(folder)
    assert command(folder, "report", STUDY)[0] == 0
    before = snapshot(layout.reports)
    undo = filled_at(folder, place, int(nth))
    code, printed = command(folder, "report", STUDY)
    undo()
    kept = snapshot(layout.reports)
    (folder / FILLER).unlink()
    again, more = command(folder, "report", STUDY)
    print(json.dumps({
        "code": code, "said": printed, "again": again, "more": more, "before": before, "kept": kept,
    }))  # fmt: skip


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
