"""Start of controllers as separate processes, and checks of the processes and run files that they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from loadbook.hosts.lab import Lab
from loadbook.store import trial_record
from loadbook.store.ledger import read_ledger
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.verify import verify_run


def loadbook(layout: Layout, *words: str) -> subprocess.Popen[str]:
    """Start `loadbook WORDS` in a project as a separate process."""
    environment = os.environ | {"LOADBOOK_HOME": str(layout.root)}
    command = [sys.executable, "-c", "from loadbook.cli import main; main()", *words]
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell starts what it puts into the background (these tests, perhaps) deaf to Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def at_work_in(lab: Lab) -> dict[int, str]:
    """Return {pid: command line} of every process whose working directory is inside the lab."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            where = str((folder / "cwd").readlink())
            if where.startswith(f"{lab.folder}/"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def jobs_left(lab: Lab) -> list[str]:
    """Return the command lines of load generators, services and samplers that run in the lab."""
    return [line for pid, line in at_work_in(lab).items() if "/jobs/" in _where(pid)]


def _where(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


def digests(layout: Layout, study: str) -> dict[str, str]:
    """Return the sha256 of every file of every published trial."""
    files = layout.study_raw(study).glob("*/trials/*/**/*")
    return {str(f.relative_to(layout.root)): trial_record.sha256_file(f) for f in files if f.is_file()}


def must_be_whole(paths: RunPaths, trials: list[str], reopened: int = 0) -> None:
    """Assert that a run executed its trials in order, each with one final state, and that all files are unchanged.

    `reopened` is the number of trials whose files were lost and that were therefore executed again.
    """
    entries = read_ledger(paths.ledger)
    assert list(dict.fromkeys(e["trial"] for e in entries if e["event"] == "started")) == trials
    begun = Counter((e["trial"], e["attempt"]) for e in entries if e["event"] == "started")
    ended = Counter((e["trial"], e["attempt"]) for e in entries if e["event"] == "ended")
    assert begun == ended and set(ended.values()) == {1}
    final = [e["trial"] for e in entries if e["event"] == "ended" and e["final"]]
    assert len(final) == len(trials) + reopened and set(final) == set(trials)
    last = {e["trial"]: e for e in entries if e["event"] == "ended"}
    assert all(e["final"] for e in last.values())
    assert sorted(p.name for p in paths.trials.iterdir()) == sorted(trials)
    assert not list((paths.raw / "staging").glob("*")) and not list(paths.raw.glob(".*.part"))
    assert verify_run(paths).findings == []
