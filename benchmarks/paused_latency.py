"""Percentiles of latency of load generators that are stopped by turns, beside those of generators that run alone.

    python benchmarks/paused_latency.py [TOOL]...    # all that are there, slices of 0.08 and 0.25 s: a minute each
    python benchmarks/paused_latency.py serve PORT   # only the server, with known service times

The server answers after a time drawn from SERVICE_TIMES, whatever its load, so that the true distribution is known. A
row per tool, slice and percentile has the value alone, the value with pauses, and their ratio; `reported` says whether
loadbook reports that percentile for an interleaved trial (`ingestion.interleaved.active_report`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Container, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from loadbook.hosts.shell import search_path
from loadbook.modes.interleaved.read import SliceLog, active_report, read_slices
from loadbook.modes.interleaved.spec import (
    PAUSABLE_TOOLS,
    SliceLengths,
    draw_rounds,
    schedule_text,
    timeout_with_pauses_s,
)
from loadbook.store.trial_record import InterleavedRecord, TrialRecord
from loadbook.study.workload import Workload
from loadbook.tools.base import ParsedReport, Target, Tool, ToolOutput, load_tool, parse_output

# (seconds, share of requests)
SERVICE_TIMES = ((0.002, 0.60), (0.003, 0.20), (0.004, 0.15), (0.008, 0.035), (0.020, 0.015))
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello"
PERCENTILES = ("p50", "p75", "p90", "p95", "p99")
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


def workload_of(tool_name: str, lengths: SliceLengths | None, seconds: int) -> Workload:
    """Return a load on the server; its time-out allows for the pauses of two generators, and h2load logs requests."""
    options: dict[str, Any] = {"extra": OPTIONS.get(tool_name, ())}
    if lengths and load_tool(tool_name).has_timeout:
        options["timeout_s"] = timeout_with_pauses_s(2.0, lengths, 2)
    return Workload(tool=tool_name, path="/", connections=CONNECTIONS, duration_s=seconds, **options)


def run_by_turns(
    workload: Workload, ports: list[int], lengths: SliceLengths | None, folder: Path
) -> tuple[list[ParsedReport], SliceLog]:
    """Run a generator per port of 127.0.0.1 by turns, or a single one without a pause (`lengths`: None).

    Returns what each tool printed, and the slices.
    """
    tool, arms = load_tool(workload.tool), range(len(ports))
    end_s = int(workload.duration_s)
    commands = [tool.command(workload, Target("127.0.0.1", port), end_s) for port in ports]
    for arm in arms:
        own = folder / f"arm{arm}"
        own.mkdir(parents=True)
        for name, data in tool.extra_files(workload).items():
            (own / name).write_bytes(data)
        (own / "cmd").write_text(f"exec {shlex.join(commands[arm])}\n")
    lengths = lengths or SliceLengths(float(end_s), 0.001, float(end_s))
    schedule = schedule_text(lengths, arms, draw_rounds(len(ports), 100, "paused"), end_s)
    (folder / "schedule").write_text(schedule)
    environment = os.environ | {"PATH": search_path()}
    done = subprocess.run(
        ["perl", PROGRAM, "schedule"], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    if done.returncode or done.stderr:
        raise RuntimeError(f"interleave.pl ended with exit code {done.returncode}: {done.stderr}")
    return [_read(tool, workload, folder / f"arm{arm}", commands[arm]) for arm in arms], read_slices(done.stdout)


def _read(tool: Tool, workload: Workload, folder: Path, command: list[str]) -> ParsedReport:
    stdout, stderr = ((folder / name).read_bytes() for name in ("stdout", "stderr"))
    found = {name: (folder / name).read_bytes() for name in tool.expected_files(workload) if (folder / name).is_file()}
    return parse_output(tool, ToolOutput(stdout, stderr, files=found, exit_code=0, argv=tuple(command)))


def reported(printed: ParsedReport, workload: Workload, log: SliceLog, arm: int) -> ParsedReport:
    """Return what loadbook reports of an arm of an interleaved block."""
    active_s = log.active_s(arm)
    record = TrialRecord(
        study="s", run="r", trial="t", treatment="a", factors={}, block=1, slot=1, attempt=1, status="ok",
        tool=workload.tool, workload=workload.model_dump(mode="json"),
        interleaved=InterleavedRecord(arm=arm, beside=[], slice_s=1, gap_s=0, slices="slices", active_s=active_s),
    )  # fmt: skip
    return active_report(printed, record, log)


def values_of(report: ParsedReport) -> dict[tuple[str, str], float]:
    """Return (metric, statistic) -> value."""
    return {(m.metric, m.statistic): m.value for m in report.measurements}


def main(tools: Sequence[str]) -> None:
    """Print the table."""
    print("| tool | slice | requests cut | percentile | alone | by turns | ratio | reported |")
    print("|---|---|---|---|---|---|---|---|")
    with server_with_known_times(2) as ports, tempfile.TemporaryDirectory() as folder:
        for tool_name in tools:
            alone = run_by_turns(workload_of(tool_name, None, 10), ports[:1], None, Path(folder, tool_name))[0][0]
            for slice_s in (0.08, 0.25):
                lengths = SliceLengths(slice_s, 0.008, max(0.05, slice_s))
                workload = workload_of(tool_name, lengths, 20)
                reports, log = run_by_turns(workload, ports, lengths, Path(folder, f"{tool_name}-{slice_s}"))
                kept = values_of(reported(reports[0], workload, log, 0))
                for cells in _rows(values_of(alone), values_of(reports[0]), kept, len(log.slices_of(0))):
                    print("|", " | ".join([tool_name, f"{1000 * slice_s:g} ms", *cells]), "|", flush=True)


def _rows(
    alone: dict[tuple[str, str], float], paused: dict[tuple[str, str], float], kept: Container[Any], slices: int
) -> Iterator[list[str]]:
    cut_share = slices * CONNECTIONS / paused["requests", "count"]
    for name in PERCENTILES:
        key = "latency", name
        if key in alone and key in paused:
            times = [f"{1000 * values[key]:.2f} ms" for values in (alone, paused)]
            ratio = f"{paused[key] / alone[key]:.2f}"
            yield [f"{100 * cut_share:.1f} %", name, *times, ratio, "yes" if key in kept else "no"]


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(_serve([int(word) for word in sys.argv[2:]]))
    else:
        found = sorted(name for name in PAUSABLE_TOOLS if shutil.which(load_tool(name).binary, path=search_path()))
        main(sys.argv[1:] or found)
