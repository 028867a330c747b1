"""Load generators that are stopped in between end on time and count what the server counted; real nginx, real tools."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from loadbook.services import Instance
from loadbook.study.interleaving import PAUSABLE_TOOLS, TAIL_S, SliceLengths, timeout_with_pauses_s
from loadbook.study.workload import Workload
from loadbook.tools.base import Target, ToolOutput, load_tool, parse_output
from local_host import LocalHost
from paused_latency import run_by_turns, server_with_known_times, values_of
from running_services import running

pytestmark = pytest.mark.alone
PROGRAM = str(files("loadbook.hosts").joinpath("interleave.pl"))
DURATION_S, CONNECTIONS = 2, 10
PROBES = 3  # requests of the test itself: two of counters, one of readiness


@pytest.fixture
def servers(here: LocalHost, free_ports: list[int]) -> Iterator[list[Instance]]:
    with (
        running(here, "nginx", free_ports[0], counters="on") as a,
        running(here, "nginx", free_ports[1], counters="on") as b,
    ):
        yield [a, b]


def write_schedule(
    folder: Path,
    tool_name: str,
    servers: list[Instance],
    *,
    lengths: SliceLengths = SliceLengths(0.025, 0.002),  # noqa: B008
    duration_s: int = DURATION_S,
    timeout_s: float = 2.0,
) -> None:
    load = {"connections": CONNECTIONS, "duration_s": duration_s, "timeout_s": timeout_s}
    workload = Workload(tool=tool_name, path="/index.html", **load)
    lines = [f"first {lengths.first_s}", f"slice {lengths.slice_s}", f"gap {lengths.gap_s}", f"end {duration_s}"]
    lines += [f"tail {TAIL_S}", "order 0 1", "order 1 0"]
    for number, server in enumerate(servers):
        own = folder / str(number)
        own.mkdir()
        for name, data in load_tool(tool_name).extra_files(workload).items():
            (own / name).write_bytes(data)
        argv = load_tool(tool_name).command(workload, Target(server.address, server.port), duration_s)
        (own / "cmd").write_text(f"exec {shlex.join(argv)}\n")
        lines.append(f"arm {number} {number}")
    (folder / "schedule").write_text("\n".join(lines) + "\n")


def run_schedule(folder: Path) -> str:
    """Return what interleave.pl printed."""
    done = subprocess.run(["perl", PROGRAM, "schedule"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def measured(folder: Path, tool_name: str, number: int) -> dict[tuple[str, str], float]:
    """Return the values that a generator reported, by metric and statistic."""
    argv = tuple(shlex.split((folder / str(number) / "cmd").read_text())[1:])
    stdout, stderr = [(folder / str(number) / name).read_bytes() for name in ("stdout", "stderr")]
    report = parse_output(load_tool(tool_name), ToolOutput(stdout, stderr, exit_code=0, argv=argv))
    return {(m.metric, m.statistic): m.value for m in report.measurements}


@pytest.mark.parametrize("tool_name", sorted(PAUSABLE_TOOLS))
def test_paused_load_generator_ends_on_time_and_counts_correctly(
    tool_name: str, here: LocalHost, servers: list[Instance], tmp_path: Path
) -> None:
    if not shutil.which(load_tool(tool_name).binary):
        pytest.skip(f"needs {tool_name}")
    before = [server.counters(here)["requests"] for server in servers]
    write_schedule(tmp_path, tool_name, servers)
    turns = [line.split() for line in run_schedule(tmp_path).splitlines() if line.startswith("slice")]
    for number, server in enumerate(servers):
        values = measured(tmp_path, tool_name, number)
        served = server.counters(here)["requests"] - before[number]
        # those under way at the end are served, but not counted by the tool
        assert served - CONNECTIONS - PROBES <= values["requests", "count"] <= served
        assert values["requests", "count"] > 1000
        active_s = sum(float(turn[3]) - float(turn[2]) for turn in turns if turn[1] == str(number))
        assert 0.3 * DURATION_S < active_s < 0.7 * DURATION_S


def test_pause_longer_than_the_time_out_counts_as_failures_unless_the_time_out_allows_for_it(
    servers: list[Instance], tmp_path: Path
) -> None:
    """A request of wrk that is stopped under way has the pause in it."""
    lengths, failed = SliceLengths(1.1, 0.002, 1.1), {}
    for timeout_s in (1.0, timeout_with_pauses_s(1.0, lengths, 2)):
        folder = tmp_path / f"{timeout_s}"
        folder.mkdir()
        write_schedule(folder, "wrk", servers, lengths=lengths, duration_s=4, timeout_s=timeout_s)
        run_schedule(folder)
        failed[timeout_s] = measured(folder, "wrk", 0).get(("errors_timeout", "count"), 0.0)
    assert failed[1.0] >= 1
    assert failed[4.0] == 0


@pytest.mark.parametrize("tool_name", sorted(PAUSABLE_TOOLS))
def test_percentiles_reported_of_a_paused_generator_are_those_of_one_that_runs_alone(
    tool_name: str, tmp_path: Path
) -> None:
    """The server's service times are known, and independent of its load."""
    if not shutil.which(load_tool(tool_name).binary):
        pytest.skip(f"needs {tool_name}")
    lengths = SliceLengths(0.25, 0.008, 0.25)
    with server_with_known_times(2) as ports:
        alone = values_of(run_by_turns(tool_name, ports[:1], lengths, 1, tmp_path / "alone")[0].printed)
        paused = run_by_turns(tool_name, ports, lengths, 2, tmp_path / "paused")[0]
    printed, reported = values_of(paused.printed), values_of(paused.reported)
    assert printed["latency", "max"] > 0.2 > alone["latency", "max"]
    names = {name for metric, name in reported if metric == "latency"}
    if tool_name == "wrk":
        assert printed["latency", "p75"] > 5 * alone["latency", "p75"]
        assert names == set()
    else:
        assert {"p50", "p75", "p90"} <= names and not {"p99", "max", "mean"} & names
        assert all(0.8 < printed["latency", name] / alone["latency", name] < 1.25 for name in ("p50", "p75", "p90"))
