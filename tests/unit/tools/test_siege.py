"""siege: what its numbers mean, its exact command, and reports that contradict themselves."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target, ToolOutput
from tool_captures import FIXTURES, capture, values

SIEGE = base.load_tool("siege")
WEB = Target("192.0.2.1", 80)


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "siege" / f"{name}.json")


def test_text_of_version_3_is_read() -> None:
    found = values(SIEGE.parse(case("3.0.8--shared")))
    assert found["requests", "count"] == 1000 and found["duration", "value"] == 6.58
    assert found["requests_per_s", "value"] == 151.98
    assert found["latency", "mean"] == 0.93 and found["latency", "max"] == 3.51 and ("latency", "min") not in found


def test_json_of_version_4_is_read_without_its_coarse_times() -> None:
    report = SIEGE.parse(case("4.0.7--shared"))
    found = values(report)
    assert found["requests", "count"] == found["ok", "count"] == 9797
    assert found["requests_per_s", "value"] == 6085.09 and found["duration", "value"] == 1.61
    assert not any(metric == "latency" for metric, _ in found) and [name for name, _ in report.doubts] == [
        "coarse_times"
    ]


def test_failed_transactions_make_attempts() -> None:
    found = values(SIEGE.parse(case("4.0.7--mix500")))
    assert found["attempts", "count"] == 270 and found["ok", "count"] == 216 and ("requests", "count") not in found
    assert ("latency", "mean") not in found and found["latency", "max"] == 0.07


def test_replies_without_status_line_count_twice_and_leave_the_attempts_unknown() -> None:
    report = SIEGE.parse(case("4.0.7--no_status"))  # 40 requests, a quarter without a status line
    found = values(report)
    assert found["ok", "count"] == 30 and "failed_unknown" in dict(report.doubts)
    assert not {metric for metric, _ in found} & {"requests", "attempts", "attempts_per_s", "errors", "errors_status"}


def test_text_in_milliseconds_is_read() -> None:
    text = case("3.0.8--shared").stdout.decode()
    text = text.replace("0.93 secs", "930.00 ms").replace("3.51", "3510.00 ms").replace("0.00\n", "0.00 ms\n")
    found = values(SIEGE.parse(ToolOutput(text.encode())))
    assert found["latency", "mean"] == pytest.approx(0.93) and found["latency", "max"] == pytest.approx(3.51)


def test_command_and_its_configuration() -> None:
    load = Workload(tool="siege", connections=20, headers={"X-A": "b"}, path="/p")
    argv = ["siege", "-R", "siege.conf", "-b", "-c20", "-t10S", "-H", "X-A: b", "http://192.0.2.1:80/p"]
    assert SIEGE.command(load, WEB, 10) == argv
    config = SIEGE.extra_files(load)["siege.conf"].decode()
    assert "connection = keep-alive\nlimit = 20\n" in config and "json_output = true\n" in config
    closing = load.model_copy(update={"keepalive": False, "requests": 100})
    assert "-r5" in SIEGE.command(closing, WEB, 10)
    assert "connection = close\n" in SIEGE.extra_files(closing)["siege.conf"].decode()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"model": "open", "rate_per_s": 5}, "open-loop"),
        ({"threads": 2}, "threads"),
        ({"think_time_s": 1}, "think_time_s"),
        ({"timeout_s": 3}, "time-out"),
        ({"requests": 51, "connections": 50}, "as many requests"),
        ({"expect_status": 204}, "waits for a body"),
        ({"headers": {"Accept-Encoding": "gzip"}}, "would send both"),
        ({"extra": ("-d1",)}, "-d of siege"),
    ],
)
def test_loads_that_siege_cannot_make_are_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        SIEGE.command(Workload.model_validate({"tool": "siege", **fields}), WEB, 2)
    with pytest.raises(ToolError, match="whole seconds"):
        SIEGE.command(Workload(tool="siege"), WEB, 2.5)


@pytest.mark.parametrize("name", ["3.0.8--shared", "4.0.7--shared", "4.0.7--mix500", "4.0.7--slow"])
def test_changed_digit_is_refused_or_changes_its_value_alone(name: str) -> None:
    output = case(name)
    text, rows = output.stdout.decode(), values(SIEGE.parse(output))
    start = max(text.find("Transactions:"), text.find("{"))
    for place in [match.start() for match in re.finditer(r"\d", text) if match.start() > start]:
        mutated = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
        try:
            found = values(SIEGE.parse(replace(output, stdout=mutated.encode())))
        except ParseError:
            continue
        attempts = {"attempts", "attempts_per_s"}  # left out if successes exceed transactions
        both = rows.keys() | found.keys()
        changed = {key[0] for key in both if rows.get(key) != found.get(key)}
        assert (
            changed <= {"latency"}
            or len(changed) == 1
            or changed <= {"ok", "ok_per_s", "errors", "errors_status"} | attempts
        )


@pytest.mark.parametrize("name", ["3.0.8--shared", "4.0.7--shared"])
def test_cut_line_or_swapped_unit_is_refused(name: str) -> None:
    output = case(name)
    lines = output.stdout.decode().splitlines(True)
    for place in range(4 if name.startswith("3") else 1, len(lines)):
        if lines[place].strip():
            with pytest.raises(ParseError):
                SIEGE.parse(replace(output, stdout="".join(lines[:place] + lines[place + 1 :]).encode()))
    for old, new in (("MB/sec", "KB/sec"), (" secs", " ms"), ("4.93 MB", "4.93 KB")):
        if old in output.stdout.decode():
            with pytest.raises(ParseError):
                SIEGE.parse(replace(output, stdout=output.stdout.replace(old.encode(), new.encode())))
