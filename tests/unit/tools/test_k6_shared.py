"""k6 on several targets by turns: command, the points of one target, and the ends of its slices.

The capture is of k6 at 45/s: three nginx, nine slices of five requests, of which arm 1 has three.
"""

from __future__ import annotations

import pytest

from loadbook.core.errors import ToolError
from loadbook.store.trial_record import SLICE_SERIES
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target, ToolOutput
from tool_captures import FIXTURES, values

K6 = base.load_tool("k6")
FOLDER = FIXTURES / "k6-shared"
ARGV = ("perl", "k6_shared.pl", "k6", "run", "-e", "RATE=45", "-e", "RATE_UNIT=1s", "-e", "SHARED=true", "load.js")


def output(**changes: bytes) -> ToolOutput:
    files = {name: (FOLDER / name).read_bytes() for name in ("points.csv", "part", "schedule")}
    return ToolOutput(b"", argv=ARGV, files=files | changes)


def test_shared_command_runs_k6_with_its_own_script_and_the_time_of_every_request() -> None:
    load = Workload.model_validate({"tool": "k6", "model": "open", "rate_per_s": 45, "path": "/a", "connections": 9})
    argv = K6.shared_command(load, Target("192.0.2.1", 8080), 6)
    assert argv[:4] == ["perl", "k6_shared.pl", "k6", "run"] and argv[-1] == "load.js"
    assert {"SHARED=true", "ARRIVALS=even", "RATE=45", "DURATION=6s", "CONNECTIONS=9"} <= set(argv)
    assert set(K6.shared_files(load)) == {"load.js", "k6_shared.pl"}
    for change in ({"arrivals": "poisson"}, {"model": "closed", "rate_per_s": None}):
        with pytest.raises(ToolError):
            K6.shared_command(load.model_copy(update=change), Target("192.0.2.1", 8080), 6)


def test_points_of_one_target_are_those_of_its_requests() -> None:
    report = base.parse_output(K6, output())
    found = values(report)
    assert (found["requests", "count"], found["ok", "count"], found["errors", "count"]) == (15, 15, 0)
    assert ("offered_per_s", "value") not in found
    assert report.doubts == ()


def test_times_count_from_the_schedule_of_all_targets() -> None:
    least_us = int((FOLDER / "part").read_bytes().split()[-1])
    rows = [line.split(b",") for line in (FOLDER / "points.csv").read_bytes().splitlines()[1:]]
    intended_us = [int(row[1]) - int(row[-1].removeprefix(b"due_us=")) - least_us for row in rows]
    found = values(base.parse_output(K6, output()))
    assert found["latency_intended", "min"] == pytest.approx(min(intended_us) / 1e6, abs=2e-6)
    assert found["latency_intended", "max"] == pytest.approx(max(intended_us) / 1e6, abs=2e-6)


def test_slices_have_their_places_in_the_schedule() -> None:
    samples = [s for s in base.parse_output(K6, output()).samples if s.series == SLICE_SERIES]
    begins = [s.x for s in samples if s.metric == "slice"]
    assert begins == pytest.approx([10 / 45, 25 / 45, 30 / 45])
    assert [s.value for s in samples if s.metric == "slice"] == pytest.approx([5 / 45] * 3)
    assert len([s for s in samples if s.metric == "latency"]) == 3
    assert [s.value for s in samples if s.metric == "overrun"] == [0, 0, 0]


def test_requests_that_were_due_and_have_no_point_are_doubts() -> None:
    part = (FOLDER / "part").read_bytes().replace(b"lost 0", b"lost 3").replace(b"requests 15", b"requests 30")
    doubts = dict(base.parse_output(K6, output(part=part)).doubts)
    assert doubts["lost"].startswith("3 requests of all treatments have no row: k6 was killed")
    assert doubts["offered_shortfall"].startswith("15 requests were started, of 30 that were due")
