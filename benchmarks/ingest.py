"""Duration of `loadbook ingest` for many small trials: first, unchanged, with one trial changed, and rebuilt.

python benchmarks/ingest.py --trials 10000 [--folder FOLDER] [--profile]

The raw run is the recorded one of tests/fixtures, repeated under new trial names with valid manifests. Each ingest is a
separate process, start of Python included. Targets for 10,000 trials on 2 CPUs: 60 s, and 3 s if unchanged.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import os
import pstats
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path

from loadbook.store import trial_record
from loadbook.store.paths import Layout, RunPaths
from loadbook.study.plan import make_plan, parse_plan

RECORDED = next((Path(__file__).parent.parent / "tests/fixtures/recorded-run").iterdir())
TARGET_TRIALS, FIRST_S, UNCHANGED_S = 10_000, 60.0, 3.0
COMMAND = [sys.executable, "-c", "from loadbook.cli import main; main()", "ingest"]


def make_raw_run(root: Path, trials: int) -> RunPaths:
    """Write a raw run of `trials` trials below `root`, each a copy of a recorded trial of its treatment."""
    recorded = RunPaths(RECORDED, RECORDED)
    small = parse_plan(trial_record.read_json(recorded.plan_json), str(recorded.plan_json))
    plan = make_plan(small.study, small.subset, -(-trials // len(small.treatments)), small.seed)
    paths = Layout(root).run(plan.study.name, recorded.raw.name)
    trial_record.write_json(paths.plan_json, plan.to_json() | {"trials": plan.to_json()["trials"][:trials]})
    folders = sorted(recorded.trials.iterdir())
    sources = {
        name: cycle(f for f in folders if trial_record.read_trial(f).treatment == name) for name in plan.treatments
    }
    paths.trials.mkdir()
    for planned in plan.trials[:trials]:
        _copy(next(sources[planned.treatment]), paths.trial(planned.trial), vars(planned))
    return paths


def _copy(source: Path, folder: Path, changes: dict[str, object]) -> None:
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(trial_record.RECORD_NAME))
    record = trial_record.read_trial(source).model_copy(update=changes)
    (folder / trial_record.RECORD_NAME).write_text(record.model_dump_json(indent=1) + "\n")


def measured(paths: RunPaths, what: str) -> float:
    """Run one ingest, print its time and memory, and return its seconds."""
    root, study = paths.raw.parents[3], paths.raw.parent.name
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([*COMMAND, study], env=os.environ | {"LOADBOOK_HOME": str(root)}, check=True, stdout=subprocess.PIPE)
    passed, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{what:<24} {passed:7.2f} s  {cpu:7.2f} s of CPU  largest process {after.ru_maxrss / 1024:5.0f} MB", flush=True
    )
    return passed


def digests(paths: RunPaths) -> dict[str, str]:
    """Return the sha256 of every file in data/processed, by its path."""
    files = sorted(p for p in paths.processed.rglob("*") if p.is_file())
    return {str(p.relative_to(paths.processed)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def benchmark(paths: RunPaths, trials: int) -> bool:
    """Measure every case, compare the bytes, and return whether the targets are met."""
    first = measured(paths, f"{trials} trials, at first")
    unchanged = measured(paths, "unchanged")
    changed = paths.trial("t0002") / "stdout-driver"
    changed.write_bytes(changed.read_bytes()[:-20])
    measured(paths, "one changed")
    new = digests(paths)
    shutil.rmtree(paths.processed)
    first = min(first, measured(paths, "rebuilt"))
    same = digests(paths) == new
    print(f"the rebuilt data/processed is {'the same, byte for byte' if same else 'ANOTHER'}")
    return same and first <= FIRST_S * trials / TARGET_TRIALS and unchanged <= UNCHANGED_S


def profile(paths: RunPaths) -> None:
    """Print where a full ingest in one process spends its time."""
    from loadbook.ingestion import ingest

    ingest.MIN_PARALLEL_BYTES = sys.maxsize
    with cProfile.Profile() as seen:
        ingest.ingest(paths)
    pstats.Stats(seen).sort_stats("cumtime").print_stats("loadbook", 40)


def main() -> None:
    """Make the run, measure, and exit 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=TARGET_TRIALS)
    parser.add_argument("--folder", type=Path, help="where the run is made (default: the system's temporary folder)")
    parser.add_argument("--profile", action="store_true", help="print a profile of one process instead")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loadbook-bench-", dir=given.folder) as folder:
        paths = make_raw_run(Path(folder), given.trials)
        if given.profile:
            profile(paths)
        elif not benchmark(paths, given.trials):
            sys.exit(1)


if __name__ == "__main__":
    main()
