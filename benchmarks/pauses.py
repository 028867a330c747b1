"""How pauses of a load generator, and reads of /proc in them, change a server's rate and the effect of a directive.

    python benchmarks/pauses.py [--repeats 12] [--slice 0.025]

An nginx on CPU 1 with tcp_nopush, one without, and wrk with 50 connections on CPU 0, for 1 s each in turn: without
pauses; in slices with pauses of 2 ms; with files of /proc that stay open and are read in each pause; with files that
are opened, read and closed there. Prints how much the rate and the server's CPU time per byte differ from those without
pauses, calls from one CPU to another (wake-ups) per 1000 bytes, and how much the effect of tcp_nopush on the rate
moves, with its standard error. Needs nginx, wrk, taskset and two CPUs.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median, stdev
from typing import NamedTuple

ADDRESS, PORTS = "127.0.7.1", {"without": 18200, "tcp_nopush": 18201}
PAUSE_S, LOAD_S, START_S = 0.002, 1.0, 0.05
WAYS = ("no pauses", "pauses", "files read again", "files opened anew")
CONFIG = """
daemon off; pid {folder}/pid; error_log {folder}/errors; worker_processes 2; events {{ worker_connections 1024; }}
http {{
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e; access_log off; sendfile on; keepalive_requests 100000000;
  {extra} server {{ listen {address}:{port}; root {folder}/html; }}
}}
"""


class Measured(NamedTuple):
    """Received bytes per active second, CPU time of the server (ns) per byte, wake-ups per 1000 bytes."""

    bytes_per_s: float
    cpu_per_byte: float
    wake_ups: float


@contextmanager
def nginx(folder: Path, name: str) -> Iterator[list[int]]:
    """Run an nginx on CPU 1; yield the ids of its processes."""
    (folder / "html").mkdir(parents=True)
    (folder / "html" / "index.html").write_text("hello")
    extra = "tcp_nopush on;" if name == "tcp_nopush" else ""
    text = CONFIG.format(folder=folder, address=ADDRESS, port=PORTS[name], extra=extra)
    (folder / "nginx.conf").write_text(("user root;" if os.geteuid() == 0 else "") + text)
    argv = ["taskset", "-c", "1", "nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    env = os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin"}
    with subprocess.Popen(argv, env=env, stderr=subprocess.DEVNULL) as process:
        try:
            time.sleep(0.5)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            yield [process.pid, *map(int, children)]
        finally:
            process.send_signal(signal.SIGTERM)


def counts(pids: list[int]) -> tuple[int, int, int]:
    """Return received bytes, CPU time of processes (ns), and calls from one CPU to another, which wake processes."""
    received = sum(int(line.split(":")[1].split()[0]) for line in Path("/proc/net/dev").read_text().splitlines()[2:])
    cpu_ns = sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids)
    lines = [line.split() for line in Path("/proc/interrupts").read_text().splitlines()]
    calls = sum(int(word) for words in lines if words[0] == "CAL:" for word in words[1:] if word.isdigit())
    return received, cpu_ns, calls


def load_in_slices(wrk: subprocess.Popen[bytes], slice_s: float, in_pause: Callable[[], object]) -> float:
    """Stop and continue wrk until it has run for LOAD_S, and return the seconds in which it ran."""
    active_s = 0.0
    while active_s < LOAD_S:
        begun_s = time.monotonic()
        time.sleep(slice_s)
        wrk.send_signal(signal.SIGSTOP)
        active_s += time.monotonic() - begun_s
        time.sleep(PAUSE_S)
        in_pause()
        wrk.send_signal(signal.SIGCONT)
    return active_s


def measure(pids: list[int], port: int, way: str, slice_s: float) -> Measured:
    """Load a server for LOAD_S in one of the ways."""
    paths = ["/proc/net/dev", *(f"/proc/{pid}/{name}" for pid in pids for name in ("stat", "schedstat"))]
    kept = [os.open(path, os.O_RDONLY) for path in paths]
    in_pause: dict[str, Callable[[], object]] = {
        "pauses": lambda: None,
        "files read again": lambda: [os.pread(file, 8192, 0) for file in kept],
        "files opened anew": lambda: [Path(path).read_bytes() for path in paths],
    }
    seconds = 3 + math.ceil(LOAD_S * (1 + PAUSE_S / slice_s))
    argv = ["taskset", "-c", "0", "wrk", "-t1", "-c50", f"-d{seconds}s", f"http://{ADDRESS}:{port}/index.html"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as wrk:
        time.sleep(START_S)
        before, begun_s = counts(pids), time.monotonic()
        if way in in_pause:
            active_s = load_in_slices(wrk, slice_s, in_pause[way])
        else:
            time.sleep(LOAD_S)
            active_s = time.monotonic() - begun_s
        received, cpu_ns, calls = (after - first for after, first in zip(counts(pids), before, strict=True))
        wrk.kill()
    for file in kept:
        os.close(file)
    return Measured(received / active_s, cpu_ns / received, 1000 * calls / received)


def effects(found: Mapping[tuple[str, str], Sequence[Measured]], way: str) -> list[float]:
    """Return the effect of tcp_nopush on the rate in one of the ways (logarithms), for each repeat."""
    pairs = zip(found[way, "without"], found[way, "tcp_nopush"], strict=True)
    return [math.log(nopush.bytes_per_s / without.bytes_per_s) for without, nopush in pairs]


def main() -> None:
    """Measure in every way in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--slice", type=float, default=0.025, help="seconds")
    given = parser.parse_args()
    os.sched_setaffinity(0, {0})  # pauses must not take time from the server's CPU
    found: dict[tuple[str, str], list[Measured]] = {}
    with tempfile.TemporaryDirectory(prefix="loadbook-pauses-") as folder:
        Path(folder).chmod(0o755)
        with nginx(Path(folder, "a"), "without") as plain, nginx(Path(folder, "b"), "tcp_nopush") as nopush:
            for _ in range(given.repeats):
                for way in WAYS:
                    for name, pids in (("without", plain), ("tcp_nopush", nopush)):
                        found.setdefault((way, name), []).append(measure(pids, PORTS[name], way, given.slice))
    print(f"slices of {1000 * given.slice:g} ms, {given.repeats} repeats")
    for way in WAYS:
        for name in PORTS:
            own, reference = found[way, name], found[WAYS[0], name]
            rate, cpu = (median(m[k] for m in own) / median(m[k] for m in reference) - 1 for k in (0, 1))
            print(f"{way:18} {name:11} rate {rate:+6.1%}  CPU {cpu:+6.1%}  wake-ups {median(m[2] for m in own):.2f}")
        moved = [here - there for here, there in zip(effects(found, way), effects(found, WAYS[0]), strict=True)]
        error = stdev(moved) / math.sqrt(len(moved))
        print(f"{way:18} effect of tcp_nopush moves by {fmean(moved):+.1%} (standard error {error:.1%})", flush=True)


if __name__ == "__main__":
    main()
