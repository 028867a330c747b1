"""A/A check on a real lab: of 20 short studies that compare a treatment with itself, at most 3 may find a difference.

python benchmarks/aa.py --studies 20 --blocks 8
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.stats.compare import compare
from loadbook.store.tables import load_run
from project import lab_project

ALLOWED_SHARE = 0.15
ALPHA = 0.05


def main() -> None:
    """Run the studies, print one line each, and exit with 1 if too many find a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=8)
    given = parser.parse_args()
    claims = 0
    with (
        tempfile.TemporaryDirectory(prefix="loadbook-bench-") as folder,
        lab_project(Path(folder), plain=True) as (layout, hosts),
    ):
        for number in range(1, given.studies + 1):
            run = run_study(layout, RunRequest("aa", hosts, blocks=given.blocks))
            ingest(layout.run("aa", run))
            values = load_run(layout, "aa", run).values("ok_per_s")
            # every trial counts, valid or not: excluding some by their gates is not what is tested here
            found = compare(values.drop(columns="valid"), "again", "baseline")
            claimed = found.p is not None and found.p < ALPHA
            claims += claimed
            print(f"{number:3} {run}  {found.effect or 0:+.2%}  p {found.p}  {'CLAIM' if claimed else ''}", flush=True)
    print(f"{claims} of {given.studies} studies claim a difference at p < {ALPHA}")
    sys.exit(claims > ALLOWED_SHARE * given.studies)


if __name__ == "__main__":
    main()
