"""Comparison of the results of Go's benchstat and of loadbook for the same CSV file of trials.

Usage: .venv/bin/python benchmarks/benchstat.py [CSV BASELINE [METRIC [MARGIN]]]

Without arguments it takes the two tables of docs/statistics.md: a recorded run, and a host that drifts (simulated).

benchstat comes from the Go module proxy, `go install golang.org/x/perf/cmd/benchstat@latest`, and must be on the PATH.
Both programs compare the same trials: valid ones with a value above zero, each a separate benchmark result.
"""

import csv
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from loadbook.cli.compare import read_trials
from loadbook.core.errors import LoadbookError, UsageError
from loadbook.stats.compare import compare_declared
from loadbook.stats.phrases import terminal_verdict
from loadbook.stats.text import direction
from loadbook.stats.verdict import decide_verdict

PROGRAM = "benchstat"
FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures" / "benchstat"
SHOWN = {"recorded": "baseline-auto", "drift": "plain"}  # tables of docs/statistics.md, and their baselines
HOW = "go install golang.org/x/perf/cmd/benchstat@latest, and put $(go env GOPATH)/bin on the PATH"


def write_results(values: "pd.Series[float]", metric: str, path: Path) -> None:
    """Write one arm's trials in the Go benchmark format, in which a unit is one word."""
    unit = "_".join(metric.split())
    trials = "".join(f"BenchmarkTrial 1 {float(value)!r} {unit}\n" for value in values)
    path.write_text(f"Unit {unit} better={direction(metric)}\n{trials}")


def benchstat(arms: dict[str, "pd.Series[float]"], metric: str) -> dict[str, str]:
    """Return benchstat's result for every arm compared with the first: change, p and number of trials.

    Raises
    ------
    UsageError : benchstat is not on the PATH, or refuses its input.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise UsageError(f"{PROGRAM} is not on the PATH", HOW)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{k}.txt" for k in range(len(arms))]
        for path, values in zip(files, arms.values(), strict=True):
            write_results(values, metric, path)
        argv = [program, "-format", "csv", *map(str, files)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"{PROGRAM} failed: {done.stderr.strip()}", "look at the values in the CSV file")
    rows = {row[0]: row[1:] for row in csv.reader(done.stdout.splitlines()) if row}
    cells = rows["Trial"][2:]  # after the baseline's median and range: median, range, change and p of each other arm
    said = {}
    for k, name in enumerate(list(arms)[1:]):
        change, p = cells[4 * k + 2 : 4 * k + 4]
        said[name] = f"{change} ({p})"
    return said


def main(path: str, baseline: str, metric: str = "ok_per_s", margin: str = "0.02") -> None:
    """Print a Markdown table: treatment, benchstat's line, loadbook's sentence."""
    values = read_trials(Path(path), treatment="treatment", block="block", value=metric, baseline=baseline)
    usable = values[values["valid"] & np.isfinite(values["value"]) & (values["value"] > 0)]
    others = [name for name in dict.fromkeys(values["treatment"]) if name != baseline]
    arms = {name: usable.loc[usable["treatment"] == name, "value"] for name in (baseline, *others)}
    theirs = benchstat(arms, metric)
    print("| treatment | benchstat | loadbook |\n|---|---|---|")
    for found in compare_declared(values, baseline, others, "baseline", metric=metric).comparisons:
        ours = terminal_verdict(decide_verdict(found, float(margin), direction(metric)))
        print(f"| {found.treatment} | {theirs[found.treatment]} | {ours} |")


if __name__ == "__main__":
    try:
        if sys.argv[1:]:
            main(*sys.argv[1:5])
        else:
            for name, base in SHOWN.items():
                print(f"\n{name}:\n")
                main(str(FIXTURES / f"{name}.csv"), base)
    except LoadbookError as error:
        sys.exit(f"{error.message}\n  next: {error.hint}")
