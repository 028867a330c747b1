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
from loadbook.study.interleaving import PAUSABLE_TOOLS
from loadbook.study.workload import Workload
from loadbook.tools.base import Target, ToolOutput, load_tool, parse_output
from local_host import LocalHost
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


def write_schedule(folder: Path, tool_name: str, servers: list[Instance]) -> None:
    workload = Workload(tool=tool_name, path="/index.html", connections=CONNECTIONS, duration_s=DURATION_S)
    lines = ["first 0.05", "slice 0.025", "gap 0.002", f"end {DURATION_S}", "tail 5", "order 0 1", "order 1 0"]
    for number, server in enumerate(servers):
        own = folder / str(number)
        own.mkdir()
        for name, data in load_tool(tool_name).extra_files(workload).items():
            (own / name).write_bytes(data)
        argv = load_tool(tool_name).command(workload, Target(server.address, server.port), DURATION_S)
        (own / "cmd").write_text(f"exec {shlex.join(argv)}\n")
        lines.append(f"arm {number} {number}")
    (folder / "schedule").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("tool_name", sorted(PAUSABLE_TOOLS))
def test_stopped_generator_ends_on_time_and_counts_right(
    tool_name: str, here: LocalHost, servers: list[Instance], tmp_path: Path
) -> None:
    if not shutil.which(load_tool(tool_name).binary):
        pytest.skip(f"needs {tool_name}")
    before = [server.counters(here)["requests"] for server in servers]
    write_schedule(tmp_path, tool_name, servers)
    done = subprocess.run(["perl", PROGRAM, "schedule"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    turns = [line.split() for line in done.stdout.splitlines() if line.startswith("slice")]
    for number, server in enumerate(servers):
        argv = tuple(shlex.split((tmp_path / str(number) / "cmd").read_text())[1:])
        stdout, stderr = [(tmp_path / str(number) / name).read_bytes() for name in ("stdout", "stderr")]
        report = parse_output(load_tool(tool_name), ToolOutput(stdout, stderr, exit_code=0, argv=argv))
        values = {(m.metric, m.statistic): m.value for m in report.measurements}
        served = server.counters(here)["requests"] - before[number]
        # those under way at the end are served, but not counted by the tool
        assert served - CONNECTIONS - PROBES <= values["requests", "count"] <= served
        assert values["requests", "count"] > 1000
        active_s = sum(float(turn[3]) - float(turn[2]) for turn in turns if turn[1] == str(number))
        assert 0.3 * DURATION_S < active_s < 0.7 * DURATION_S
