"""Scatter of ok_per_s by duration, warm-up, connections and server variant, measured to choose the length of trials.

Every measurement starts a new nginx (rendered from the package's service folder) on one CPU and wrk -t1 on another.
The conditions of one sweep run in randomised blocks, so that a drift of the machine does not look like a difference.
On a shared machine, `--foreign 0.1` repeats each measurement during which other processes used more than 0.1 CPU.

    python benchmarks/trial_length.py durations --blocks 10
    python benchmarks/trial_length.py controls --blocks 8 --duration 1
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from loadbook.services import InstanceContext, load_service, render

BASE: dict[str, str | int] = {
    "worker_processes": "auto",
    "worker_connections": 1024,
    "sendfile": "on",
    "keepalive_timeout": 65,
    "keepalive_requests": 1_000_000,
}


class Condition(NamedTuple):
    """Settings of one measurement; `values` are the service's variables that differ from BASE."""

    name: str
    connections: int = 50
    duration_s: int = 1
    warmup_s: float = 0.5
    values: tuple[tuple[str, str | int], ...] = ()


def sweeps(duration_s: int, connections: int) -> dict[str, list[Condition]]:
    """Return {name of a sweep: its conditions}; the others are compared with the first."""

    def vary(name: str, **values: str | int) -> Condition:
        return Condition(name, connections, duration_s, values=tuple(values.items()))

    log = {"access_log": "unbuffered"}
    return {
        "connections": [Condition(f"c={c}", c, duration_s) for c in (50, 10, 20, 100)],
        "durations": [Condition(f"d={d}", connections, d) for d in (1, 2, 3, 5)],
        "warmups": [Condition(f"w={w}", connections, duration_s, w) for w in (0.5, 0.0, 0.3, 1.0)],
        "controls": [
            vary("base"),
            vary("log", **log),
            vary("2 logs", **log, access_logs=2),
            vary("4 logs", **log, access_logs=4),
            vary("8 logs", **log, access_logs=8),
            vary("buffered", access_log="buffered"),
        ],
        "singles": [
            vary("base"),
            vary("again"),
            vary("nopush", tcp_nopush="on"),
            vary("nodelay off", tcp_nodelay="off"),
            vary("accept", multi_accept="on"),
            vary("1 worker", worker_processes=1),
        ],
    }


@contextmanager
def served(condition: Condition, cpu: int, port: int) -> Iterator[int]:
    """Run nginx for one measurement and yield the id of its master process."""
    spec = load_service("nginx")
    with tempfile.TemporaryDirectory(prefix="loadbook-bench-") as folder:
        rendered = render(spec, {**BASE, **dict(condition.values)}, InstanceContext(folder, "127.0.0.1", port))
        for name, data in rendered.files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        argv = ["taskset", "-c", str(cpu), *rendered.commands["start"]]
        server = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
        try:
            _wait(f"http://127.0.0.1:{port}/index.html")
            yield server.pid
        finally:
            server.terminate()
            server.wait()


def _wait(url: str) -> None:
    for _ in range(200):
        try:
            urllib.request.urlopen(url, timeout=1).read()
            return
        except OSError:
            time.sleep(0.01)
    raise SystemExit(f"{url} does not answer")


class Seen(NamedTuple):
    """Requests/s of one measurement, and the CPUs used by wrk, nginx and all other processes during it."""

    rate: float
    wrk_cpu: float
    nginx_cpu: float
    foreign_cpu: float


def measure(condition: Condition, driver_cpu: int, server_cpu: int, port: int) -> Seen:
    """Take one measurement on a newly started server."""
    with served(condition, server_cpu, port) as master:
        wrk = ["taskset", "-c", str(driver_cpu), "wrk", "-t1", f"-c{condition.connections}"]
        url = f"http://127.0.0.1:{port}/index.html"
        if condition.warmup_s:
            stop = ["timeout", "-s", "INT", str(condition.warmup_s)]
            subprocess.run([*stop, *wrk, "-d5", url], capture_output=True, check=False)
        before, busy, used, began = _ticks(master), _busy_s(), os.times(), time.monotonic()
        done = subprocess.run([*wrk, f"-d{condition.duration_s}", url], capture_output=True, text=True, check=True)
        wall, now = time.monotonic() - began, os.times()
        wrk_s = now.children_user + now.children_system - used.children_user - used.children_system
        nginx_s = (_ticks(master) - before) / os.sysconf("SC_CLK_TCK")
        foreign_s = _busy_s() - busy - wrk_s - nginx_s
    found = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    if not found or "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise SystemExit(f"not a clean measurement:\n{done.stdout}")
    return Seen(float(found[1]), wrk_s / wall, nginx_s / wall, foreign_s / wall)


def _busy_s() -> float:
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def undisturbed(given: argparse.Namespace, condition: Condition) -> Seen:
    """Wait until the machine is idle and measure; repeat disturbed measurements up to 5 times; return the best one."""
    driver_cpu, server_cpu = map(int, given.cpus.split(","))
    tries: list[Seen] = []
    while len(tries) < 5 and not any(t.foreign_cpu <= given.foreign for t in tries):
        _wait_for_calm(given.foreign)
        tries.append(measure(condition, driver_cpu, server_cpu, given.port))
    return min(tries, key=lambda t: t.foreign_cpu)


def _wait_for_calm(foreign: float, at_most_s: float = 30.0) -> None:
    deadline = time.monotonic() + at_most_s
    while time.monotonic() < deadline:
        before = _busy_s()
        time.sleep(0.4)
        if (_busy_s() - before) / 0.4 <= foreign:
            return


def _ticks(master: int) -> int:
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == master or int(fields[1]) == master:
            total += int(fields[11]) + int(fields[12])
    return total


def main() -> None:
    """Run one sweep and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", choices=list(sweeps(1, 50)))
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--duration", type=int, default=1, help="seconds, where the sweep does not vary it")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--cpus", default="0,1", help="driver,server")
    parser.add_argument("--port", type=int, default=18970)
    parser.add_argument("--foreign", type=float, default=100.0, help="CPUs that others may use in a measurement")
    given = parser.parse_args()
    conditions = sweeps(given.duration, given.connections)[given.sweep]
    seen: dict[str, list[Seen]] = {c.name: [] for c in conditions}
    for block in range(given.blocks):
        for condition in random.sample(conditions, len(conditions)):
            seen[condition.name].append(undisturbed(given, condition))
        print(f"block {block + 1} of {given.blocks}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    show([c.name for c in conditions], seen)


def show(names: list[str], seen: dict[str, list[Seen]]) -> None:
    """Print one row per condition: level, scatter, CPU shares, and the ratio to the first with its 95 % half-width."""
    from scipy.stats import t

    columns = ["condition", "n", "median req/s", "CV %", "wrk CPU", "nginx CPU", "foreign CPU", "nginx µs/req"]
    columns += ["vs first %", "±", "pair sd %"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    first = [math.log(r.rate) for r in seen[names[0]]]
    for name in names:
        rates = [r.rate for r in seen[name]]
        ratios = [math.log(rate) - base for rate, base in zip(rates, first, strict=True)]
        sd = statistics.stdev(ratios)
        half = float(t.ppf(0.975, len(ratios) - 1)) * sd / math.sqrt(len(ratios))
        cv = statistics.stdev(rates) / statistics.mean(rates)
        cpus = [f"{statistics.mean(column):.2f}" for column in list(zip(*seen[name], strict=True))[1:]]
        cost_us = statistics.median(r.nginx_cpu / r.rate for r in seen[name]) * 1e6
        effect = math.expm1(statistics.mean(ratios))
        row = [name, len(rates), f"{statistics.median(rates):,.0f}", f"{cv * 100:.1f}", *cpus, f"{cost_us:.2f}"]
        row += [f"{effect * 100:+.1f}", f"{half * 100:.1f}", f"{sd * 100:.1f}"]
        print(f"| {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()
