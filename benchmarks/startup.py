"""Duration of `loadbook --help`, compared with that of an idle Python interpreter (limit: 0.3 s).

Usage: .venv/bin/python benchmarks/startup.py [repeats]
"""

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "loadbook --help": [sys.executable, "-c", "from loadbook.cli import main; main()", "--help"],
    "loadbook parse --help": [sys.executable, "-c", "from loadbook.cli import main; main()", "parse", "--help"],
}


def wall_s(argv: list[str]) -> float:
    """Return the wall-clock seconds of one execution."""
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main(repeats: int = 15) -> None:
    """Time the commands in turn, and print their medians."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(repeats):
        for name, argv in COMMANDS.items():
            taken[name].append(wall_s(argv))
    for name, values in taken.items():
        print(f"{name:24} median {statistics.median(values):.3f} s   worst {max(values):.3f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
