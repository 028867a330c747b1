"""Duration of the statistics: one comparison of 30 blocks (limit 50 ms), and 20 treatments by 30 blocks (limit 1 s).

Usage: .venv/bin/python benchmarks/compare_speed.py [repeats]
"""

import sys
import time

import numpy as np
import pandas as pd

from loadbook.stats.compare import compare_declared

BLOCKS = 30
ROWS = {
    "2 arms, 12 blocks, all swaps": (1, 12, 1.0, 0.05),
    "2 arms, 30 blocks": (1, BLOCKS, 1.0, 0.05),
    "2 arms, 30 blocks, one arm scatters more": (1, BLOCKS, 4.0, 0.05),
    "20 treatments, 12 blocks, all swaps": (20, 12, 1.0, 1.0),
    "20 treatments, 30 blocks": (20, BLOCKS, 1.0, 1.0),
}


def trials(treatments: int, blocks: int, spread: float, seed: int) -> pd.DataFrame:
    """Return simulated trials with a common drift and a scatter of 2 %, for treatments `spread` times as much."""
    rng = np.random.default_rng(seed)
    drift = np.cumsum(rng.normal(0, 0.01, blocks))
    arms = {"base": drift + rng.normal(0, 0.02, blocks)}
    for k in range(treatments):
        arms[f"t{k:02}"] = drift + rng.normal(0.002 * k, 0.02 * spread, blocks)
    rows = [(name, block, np.exp(log)) for name, logs in arms.items() for block, log in enumerate(logs)]
    return pd.DataFrame(rows, columns=["treatment", "block", "value"])


def seconds(treatments: int, blocks: int, spread: float, seed: int) -> tuple[float, float]:
    """Return (wall-clock seconds, CPU seconds) of all comparisons in one table, with intervals and adjusted p."""
    values = trials(treatments, blocks, spread, seed)
    names = [name for name in values["treatment"].unique() if name != "base"]
    started, cpu = time.perf_counter(), time.process_time()
    compare_declared(values, "base", names, "baseline")
    return time.perf_counter() - started, time.process_time() - cpu


def main(repeats: int = 15) -> None:
    """Print a row per case, with another table in each repeat; the first call, which includes imports, is not timed."""
    seconds(2, 8, 1.0, 0)
    for name, (treatments, blocks, spread, limit) in ROWS.items():
        taken = np.array([seconds(treatments, blocks, spread, seed) for seed in range(1, repeats + 1)])
        wall, cpu = 1000 * np.median(taken, axis=0)
        worst = 1000 * taken[:, 0].max()
        print(f"{name:42} median {wall:6.1f} ms, worst {worst:6.1f}, CPU {cpu:6.1f}   limit {1000 * limit:.0f} ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
