"""Gatling's logs of requests: the rows of recorded ones agree with the summary that Gatling printed of the same run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadbook.core.errors import ParseError
from loadbook.request_logs.read import summarise
from loadbook.request_logs.summary import Histogram
from loadbook.tools import base
from tool_captures import FIXTURES, capture, values

GATLING = base.load_tool("gatling")
LOG = "simulation.log"
CASES = sorted(path.name.removesuffix(f".{LOG}") for path in (FIXTURES / "gatling").glob(f"*.{LOG}"))


@pytest.mark.parametrize("case", CASES)
def test_rows_agree_with_the_summary_of_the_same_run(case: str) -> None:
    output = capture(FIXTURES / "gatling" / f"{case}.json")
    printed, rows = values(GATLING.parse(replace(output, files={}))), values(GATLING.parse(output))
    for name in ("ok", "errors"):
        assert rows[name, "count"] == printed[name, "count"]
    attempts = printed.get(("attempts", "count"), printed["ok", "count"])
    total = summarise(output.files[LOG], "gatling").total()
    assert total.attempts == attempts
    if case.endswith("plain"):
        check_times(total.latency, printed)


def check_times(latency: Histogram, printed: dict[tuple[str, str], float]) -> None:
    assert {latency.percentile_s(0), latency.percentile_s(100)} == {printed["latency", n] for n in ("min", "max")}
    assert latency.mean_s() == pytest.approx(printed["latency", "mean"], abs=0.00051)
    assert latency.sd_s() == pytest.approx(printed["latency", "sd"], abs=0.00051)


@pytest.mark.parametrize("case", [case for case in CASES if case.endswith("mix")])
def test_outcomes_are_those_of_the_simulation(case: str) -> None:
    """18 each: connection refused, no such host, timeout, closed early, a text that is absent, status 500, 404."""
    rows = values(GATLING.parse(capture(FIXTURES / "gatling" / f"{case}.json")))
    names = ("connect", "timeout", "read", "status", "other", "write", "driver")
    assert [rows[f"errors_{name}", "count"] for name in names] == [36, 18, 18, 36, 18, 0, 0]
    assert (rows["requests", "count"], rows["ok", "count"]) == (90, 36)
    labels = summarise((FIXTURES / "gatling" / f"{case}.{LOG}").read_bytes(), "gatling").labels
    assert {"Shop / In / Home", "Shop / In / Käse", "None 你"} < set(labels) and len(labels) == 9


def test_request_of_weeks_that_one_damaged_byte_makes_is_refused() -> None:
    data = bytearray((FIXTURES / "gatling/3.14.9--log_plain.simulation.log").read_bytes())
    data[4338] = 127
    with pytest.raises(ParseError, match=r"byte \d+: the request here takes more than a day"):
        summarise(bytes(data), "gatling", file="simulation.log")


def test_request_of_two_days_in_a_text_log_is_refused_with_its_line() -> None:
    data = (FIXTURES / "gatling/3.10.5--log_mix.simulation.log").read_bytes()
    lines = data.splitlines(keepends=True)
    place = next(at for at, line in enumerate(lines) if line.startswith(b"REQUEST\t"))
    cells = lines[place].split(b"\t")
    cells[4] = str(int(cells[4]) + 2 * 86_400_000).encode()
    lines[place] = b"\t".join(cells)
    with pytest.raises(ParseError, match="takes more than a day") as refusal:
        summarise(b"".join(lines), "gatling", file="simulation.log")
    assert refusal.value.line == place + 1
