"""Percentiles of latency of load generators that are stopped by turns, beside those of generators that run alone.

    python benchmarks/paused_latency.py              # wrk, ab and h2load, slices of 0.08 and 0.25 s: 3 minutes
    python benchmarks/paused_latency.py serve PORT   # only the server, with known service times

The server answers after a time drawn from SERVICE_TIMES, whatever its load, so that the true distribution is known. A
row per tool, slice and percentile has the value alone, the value with pauses, and their ratio; `reported` says whether
loadbook reports that percentile for an interleaved trial (`ingestion.interleaved.active_report`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from loadbook.ingestion.interleaved import SliceLog, active_report, read_slices
from loadbook.store.trial_record import InterleavedRecord, TrialRecord
from loadbook.study.interleaving import TAIL_S, SliceLengths, timeout_with_pauses_s
from loadbook.study.workload import Workload
from loadbook.tools.base import ParsedReport, Target, Tool, ToolOutput, load_tool, parse_output

# (seconds, share of requests)
SERVICE_TIMES = ((0.002, 0.60), (0.003, 0.20), (0.004, 0.15), (0.008, 0.035), (0.020, 0.015))
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello"
PERCENTILES = ("p50", "p75", "p90", "p99")
CONNECTIONS, MAX_SERVER_S = 10, 600
OPTIONS = {"h2load": ("--log-file=h2load.log",)}
PROGRAM = str(files("loadbook.hosts").joinpath("interleave.pl"))


async def _serve(ports: list[int]) -> None:
    times_s, shares = zip(*SERVICE_TIMES, strict=True)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(random.choices(times_s, shares)[0])
                writer.write(ANSWER)
        writer.close()

    servers = [await asyncio.start_server(answer, "127.0.0.1", port) for port in ports]
    await asyncio.sleep(MAX_SERVER_S)
    for server in servers:
        server.close()


@contextlib.contextmanager
def server_with_known_times(ports: int) -> Iterator[list[int]]:
    """Run the server in a process of its own and yield its ports on 127.0.0.1."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(ports)]
    numbers = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    process = subprocess.Popen([sys.executable, __file__, "serve", *map(str, numbers)])
    try:
        for number in numbers:
            while process.poll() is None:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", number), 1):
                    break
                time.sleep(0.02)
        yield numbers
    finally:
        process.terminate()
        process.wait(10)


class Load(NamedTuple):
    """One generator's report, as the tool printed it, and as loadbook reports it for an interleaved trial."""

    printed: ParsedReport
    reported: ParsedReport
    cut_share: float


def run_by_turns(tool_name: str, ports: list[int], lengths: SliceLengths, seconds: int, folder: Path) -> list[Load]:
    """Run a generator per port by turns; with a single port it runs alone, without a pause."""
    tool, alone = load_tool(tool_name), len(ports) == 1
    if alone:
        lengths = SliceLengths(float(seconds), 0.001, float(seconds))
    load = {"connections": CONNECTIONS, "duration_s": seconds, "extra": OPTIONS.get(tool_name, ())}
    timeout = {"timeout_s": timeout_with_pauses_s(2.0, lengths, len(ports))} if tool.has_timeout else {}
    workload = Workload.model_validate({"tool": tool_name, "path": "/", **load, **timeout})
    lines = [f"first {lengths.first_s}", f"slice {lengths.slice_s}", f"gap {lengths.gap_s}", f"end {seconds}"]
    lines += [f"tail {TAIL_S}", *(f"arm {arm} {arm}" for arm in range(len(ports)))]
    draw = random.Random(tool_name)
    lines += [f"order {' '.join(map(str, draw.sample(range(len(ports)), len(ports))))}" for _ in range(100)]
    for arm, port in enumerate(ports):
        (folder / f"{arm}").mkdir(parents=True)
        for name, data in tool.extra_files(workload).items():
            (folder / f"{arm}" / name).write_bytes(data)
        argv = tool.command(workload, Target("127.0.0.1", port), seconds)
        (folder / f"{arm}" / "cmd").write_text(f"exec {shlex.join(argv)}\n")
    (folder / "schedule").write_text("\n".join(lines) + "\n")
    done = subprocess.run(["perl", PROGRAM, "schedule"], cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"interleave.pl ended with {done.returncode}: {done.stderr}")
    slices = read_slices(done.stdout)
    return [_read(tool, workload, folder / f"{arm}", arm, slices) for arm in range(len(ports))]


def _read(tool: Tool, workload: Workload, folder: Path, arm: int, log: SliceLog) -> Load:
    argv = tuple(shlex.split((folder / "cmd").read_text())[1:])
    stdout, stderr = ((folder / name).read_bytes() for name in ("stdout", "stderr"))
    found = {name: (folder / name).read_bytes() for name in tool.expected_files(workload) if (folder / name).is_file()}
    printed = parse_output(tool, ToolOutput(stdout, stderr, files=found, exit_code=0, argv=argv))
    interleaved = InterleavedRecord(
        arm=arm, beside=[], slice_s=1.0, gap_s=0.001, slices="slices", active_s=log.active_s(arm)
    )
    record = TrialRecord(
        study="s", run="r", trial="t", treatment="a", factors={}, block=1, slot=1, attempt=1, status="ok",
        tool=tool.name, workload=workload.model_dump(mode="json"), interleaved=interleaved,
    )  # fmt: skip
    slices = len(log.slices_of(arm))
    requests = values_of(printed)["requests", "count"]
    return Load(printed, active_report(printed, record, slices), slices * CONNECTIONS / requests)


def values_of(report: ParsedReport) -> dict[tuple[str, str], float]:
    """Return (metric, statistic) -> value."""
    return {(m.metric, m.statistic): m.value for m in report.measurements}


def main() -> None:
    """Print the table."""
    print("| tool | slice | requests cut | percentile | alone | by turns | ratio | reported |")
    print("|---|---|---|---|---|---|---|---|")
    with server_with_known_times(2) as ports, tempfile.TemporaryDirectory() as folder:
        for tool_name in ("wrk", "ab", "h2load"):
            alone = values_of(run_by_turns(tool_name, ports[:1], SliceLengths(1, 1), 10, Path(folder, tool_name))[0][0])
            for slice_s in (0.08, 0.25):
                lengths = SliceLengths(slice_s, 0.008, max(0.05, slice_s))
                own = Path(folder, f"{tool_name}-{slice_s}")
                load = run_by_turns(tool_name, ports, lengths, 20, own)[0]
                paused, reported = values_of(load.printed), values_of(load.reported)
                for name in PERCENTILES:
                    key = "latency", name
                    if key in alone and key in paused:
                        one, other = 1000 * alone[key], 1000 * paused[key]
                        cells = [f"{1000 * slice_s:g} ms", f"{100 * load.cut_share:.1f} %", name, f"{one:.2f} ms"]
                        cells += [f"{other:.2f} ms", f"{other / one:.2f}", "yes" if key in reported else "no"]
                        print("|", " | ".join([tool_name, *cells]), "|", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(_serve([int(word) for word in sys.argv[2:]]))
    else:
        main()
