"""vegeta on several targets by turns: command, the results of one target, and the ends of its slices.

The capture is of vegeta 12.13.0 at 500/s: three nginx, nine slices of five requests, of which arm 1 has three.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.request_logs.read import read_batches
from loadbook.store.trial_record import SLICE_SERIES
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target, ToolOutput
from loadbook.tools.shared_load import Part, read_part, shared_files
from loadbook.tools.shared_slices import read_turns, slice_samples
from tool_captures import FIXTURES, values

VEGETA = base.load_tool("vegeta")
FOLDER = FIXTURES / "vegeta-shared"
ARGV = ("perl", "vegeta_shared.pl", "2000000", "-rate=500/1s", "-duration=5.09s", "-max-body=0")


def output(**changes: bytes) -> ToolOutput:
    files = {name: (FOLDER / name).read_bytes() for name in ("results.csv", "part", "schedule")}
    return ToolOutput(b"", argv=ARGV, files=files | {name.replace("_", "."): data for name, data in changes.items()})


def test_shared_command_has_the_interval_of_the_schedule_and_the_options_of_an_attack() -> None:
    load = Workload.model_validate({"tool": "vegeta", "model": "open", "rate_per_s": 500, "path": "/a"})
    argv = VEGETA.shared_command(load, Target("192.0.2.1", 8080), 6)
    assert argv[:5] == ["perl", "vegeta_shared.pl", "2000000", "-rate=500/1s", "-duration=11s"]
    assert set(VEGETA.shared_files(load)) == {"vegeta_shared.pl"}
    with pytest.raises(ToolError, match="at a rate only"):
        VEGETA.shared_command(load.model_copy(update={"model": "closed", "rate_per_s": None}), Target("h", 1), 6)


def test_tools_that_cannot_share_a_load_say_so() -> None:
    load = Workload.model_validate({"tool": "wrk2", "model": "open", "rate_per_s": 500})
    with pytest.raises(ToolError, match="wrk2 cannot put one load on several targets by turns"):
        base.load_tool("wrk2").shared_command(load, Target("192.0.2.1", 80), 6)


def test_files_of_a_shared_load_name_targets_and_turns() -> None:
    files = shared_files({0: "http://192.0.2.1/", 2: "http://192.0.2.1:81/a"}, [(2, 5), (0, 4)])
    assert files == {"arms": b"0 http://192.0.2.1/\n2 http://192.0.2.1:81/a\n", "schedule": b"2 5\n0 4\n"}


def test_results_of_one_target_are_those_of_its_requests() -> None:
    report = base.parse_output(VEGETA, output())
    found = values(report)
    assert (found["requests", "count"], found["ok", "count"], found["errors", "count"]) == (15, 15, 0)
    assert ("offered_per_s", "value") not in found
    assert report.doubts == ()


def test_times_count_from_the_schedule_of_all_targets() -> None:
    """The least late request may be one of another target."""
    own = values(base.parse_output(VEGETA, output()))
    part = (FOLDER / "part").read_bytes()
    rows = [line.split(b",") for line in (FOLDER / "results.csv").read_bytes().splitlines()]
    least_ns = int(part.split()[-1]) * 1000
    intended = sorted(int(row[0]) + int(row[2]) - int(row[8]) * 2_000_000 - least_ns for row in rows)
    assert own["latency_intended", "min"] == pytest.approx(intended[0] / 1e9, abs=2e-6)
    assert own["latency_intended", "max"] == pytest.approx(intended[-1] / 1e9, abs=2e-6)
    with pytest.raises(ParseError, match="not a part of a shared load"):
        base.parse_output(VEGETA, output(part=b"x 1\n"))
    assert read_part("vegeta", part[: part.index(b"least")]).least_lateness_us is None


def test_requests_that_were_due_and_have_no_row_are_doubts() -> None:
    part = (FOLDER / "part").read_bytes().replace(b"lost 0", b"lost 3").replace(b"requests 15", b"requests 30")
    doubts = dict(base.parse_output(VEGETA, output(part=part)).doubts)
    assert doubts["lost"].startswith("3 requests of all treatments have no row")
    assert doubts["offered_shortfall"].startswith("15 requests were started, of 30 that were due")


@pytest.mark.parametrize("schedule", [b"", b"0 5\n1\n", b"0 five\n", b"0 -5\n"])
def test_damaged_schedule_is_refused(schedule: bytes) -> None:
    with pytest.raises(ParseError, match="not a schedule of a shared load"):
        base.parse_output(VEGETA, output(schedule=schedule))


def test_slices_have_their_places_in_the_schedule_and_the_time_of_their_last_response() -> None:
    samples = base.parse_output(VEGETA, output()).samples
    lengths = [(s.x, s.value) for s in samples if (s.series, s.metric) == (SLICE_SERIES, "slice")]
    assert lengths == [(0.02, 0.01), (0.05, 0.01), (0.06, 0.01)]
    assert all(s.value < 0.005 for s in samples if s.metric == "overrun")


def overruns(path: Path, delay_ns: int, numbers: set[int], tmp_path: Path) -> list[float]:
    """Return the overruns when the responses to some requests come later."""
    rows = [line.split(b",") for line in path.read_bytes().splitlines()]
    for row in rows:
        row[2] = str(int(row[2]) + delay_ns * (int(row[8]) in numbers)).encode()
    changed = tmp_path / "results.csv"
    changed.write_bytes(b"".join(b",".join(row) + b"\n" for row in rows))
    part = read_part("vegeta", (FOLDER / "part").read_bytes())
    properties = {"interval_ns": "2000000", "least_lateness_us": str(part.least_lateness_us)}
    batches = read_batches(changed, "vegeta", properties=properties)
    turns = read_turns("vegeta", (FOLDER / "schedule").read_bytes())
    return [s.value for s in slice_samples(batches, part, turns, 2000.0) if s.metric == "overrun"]


def test_late_response_counts_from_the_end_of_its_slice(tmp_path: Path) -> None:
    on_time = overruns(FOLDER / "results.csv", 0, set(), tmp_path)
    late = overruns(FOLDER / "results.csv", 30_000_000, {12}, tmp_path)
    assert 0.02 < late[0] < 0.035 and late[1:] == on_time[1:]


def test_turns_of_single_requests_are_no_slices() -> None:
    turns = np.array([[0, 1], [1, 1]])
    assert list(slice_samples([], Part(1, 1, 0), turns, 1000.0)) == []
