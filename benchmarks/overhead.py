"""Time of a trial in a lab beyond warm-up, measurement and reset wait, by phase (target: at most 1.0 s).

python benchmarks/overhead.py --trials 20
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.store import trial_record
from loadbook.store.trial_record import TrialRecord
from project import lab_project

TARGET_S = 1.0


def overhead_s(record: TrialRecord) -> float:
    """Return the seconds of one trial that are neither reset, warm-up nor measurement."""
    work = record.workload
    return (record.duration_s or 0.0) - record.phases_s["reset"] - work["warmup_s"] - work["duration_s"]


def main() -> None:
    """Run the A/A study and print medians by phase; exit with 1 if the median overhead exceeds the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    blocks = (parser.parse_args().trials + 1) // 2
    with (
        tempfile.TemporaryDirectory(prefix="loadbook-bench-") as folder,
        lab_project(Path(folder), plain=True) as (layout, hosts),
    ):
        run = run_study(layout, RunRequest("aa", hosts, blocks=blocks))
        records = [trial_record.read_trial(p) for p in sorted(layout.run("aa", run).trials.iterdir())]
    print(f"{'phase':<12} median ms   max ms   ({len(records)} trials)")
    for phase in records[0].phases_s:
        seconds = [r.phases_s[phase] for r in records]
        print(f"{phase:<12} {statistics.median(seconds) * 1e3:9.0f} {max(seconds) * 1e3:8.0f}")
    found = [overhead_s(r) for r in records]
    print(f"{'overhead':<12} {statistics.median(found) * 1e3:9.0f} {max(found) * 1e3:8.0f}   target {TARGET_S:g} s")
    sys.exit(statistics.median(found) > TARGET_S)


if __name__ == "__main__":
    main()
