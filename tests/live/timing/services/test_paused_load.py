"""Load generators that are stopped in between end on time and count what the server counted; real nginx, real tools."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loadbook.hosts.shell import search_path
from loadbook.modes.interleaved.spec import PAUSABLE_TOOLS, SliceLengths, timeout_with_pauses_s
from loadbook.services import Instance
from loadbook.study.workload import Workload
from loadbook.tools.base import load_tool
from local_host import LocalHost
from paused_latency import reported, run_by_turns, server_with_known_times, values_of, workload_of
from running_services import running

CONNECTIONS = 10
PROBES = 3  # requests of the test itself: two of counters, one of readiness


@pytest.fixture
def servers(here: LocalHost, free_ports: list[int]) -> Iterator[list[Instance]]:
    kept = 100_000_000  # h2load may never end when a server closes connections
    with (
        running(here, "nginx", free_ports[0], counters="on", keepalive_requests=kept) as a,
        running(here, "nginx", free_ports[1], counters="on", keepalive_requests=kept) as b,
    ):
        yield [a, b]


def needs(tool_name: str) -> None:
    """Skip without the tool; else read its program, as k6 (70 MB) took 8 s to start from a busy disk."""
    program = shutil.which(load_tool(tool_name).binary, path=search_path())
    if not program:
        pytest.skip(f"needs {tool_name}")
    Path(program).read_bytes()


def page_load(tool_name: str, duration_s: float, **keys: float) -> Workload:
    load = {"connections": CONNECTIONS, "duration_s": duration_s}
    return Workload(tool=tool_name, path="/index.html", **load, **keys)


@pytest.mark.parametrize("tool_name", sorted(PAUSABLE_TOOLS))
def test_paused_load_generator_ends_on_time_and_counts_correctly(
    tool_name: str, here: LocalHost, servers: list[Instance], tmp_path: Path
) -> None:
    needs(tool_name)
    before = [server.counters(here)["requests"] for server in servers]
    load, ports = page_load(tool_name, 2), [server.port for server in servers]
    reports, log = run_by_turns(load, ports, SliceLengths(0.025, 0.002), tmp_path)
    for number, server in enumerate(servers):
        values = values_of(reports[number])
        served = server.counters(here)["requests"] - before[number]
        # those under way at the end are served, but not counted by the tool; a tool that is continued after its time
        # may send some more (33 of 51,170 where three test processes shared two CPUs)
        assert served - 5 * CONNECTIONS - PROBES <= values["requests", "count"] <= served
        assert values["requests", "count"] > 1000
    slices = [len(log.slices_of(number)) for number in range(len(servers))]
    # the machine may stand still for a second, which is then part of one slice
    assert min(slices) > 10 and abs(slices[0] - slices[1]) <= 4
    assert log.slices[-1].end_s - log.slices[0].start_s < load.duration_s + 2


def test_pause_longer_than_the_time_out_counts_as_failures_unless_the_time_out_allows_for_it(
    servers: list[Instance], tmp_path: Path
) -> None:
    """A request of wrk that is stopped under way has the pause in it."""
    needs("wrk")
    lengths, ports = SliceLengths(1.1, 0.002, 1.1), [server.port for server in servers]

    def failures(timeout_s: float) -> float:
        load = page_load("wrk", 4, timeout_s=timeout_s)
        reports, _ = run_by_turns(load, ports, lengths, tmp_path / f"{timeout_s}")
        return values_of(reports[0]).get(("errors_timeout", "count"), 0.0)

    timeouts_s = (1.0, timeout_with_pauses_s(1.0, lengths, 2))
    with ThreadPoolExecutor() as pool:
        failed = dict(zip(timeouts_s, pool.map(failures, timeouts_s), strict=True))
    assert failed[1.0] >= 1
    assert failed[4.0] == 0


@pytest.mark.parametrize("tool_name", sorted(PAUSABLE_TOOLS))
def test_percentiles_reported_of_a_paused_generator_are_those_of_one_that_runs_alone(
    tool_name: str, tmp_path: Path
) -> None:
    """The server's service times are known, and independent of its load."""
    needs(tool_name)
    lengths = SliceLengths(0.25, 0.008, 0.25)
    load = workload_of(tool_name, lengths, 2)
    with server_with_known_times(2) as ports:
        alone = values_of(run_by_turns(workload_of(tool_name, None, 1), ports[:1], None, tmp_path / "alone")[0][0])
        reports, log = run_by_turns(load, ports, lengths, tmp_path / "paused")
    printed, kept = values_of(reports[0]), values_of(reported(reports[0], load, log, 0))
    assert printed["latency", "max"] > 0.2 > alone["latency", "max"]
    names = {name for metric, name in kept if metric == "latency"}
    if tool_name == "wrk":
        assert printed["latency", "p75"] > 5 * alone["latency", "p75"]
        assert names == set()
    else:
        assert {"p50", "p75", "p90"} <= names and not {"p99", "max", "mean"} & names
        assert all(0.8 < printed["latency", name] / alone["latency", name] < 1.25 for name in ("p50", "p75", "p90"))
