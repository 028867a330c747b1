"""oha: command, metric of latencies by the kind of load, reports that contradict themselves, and doubts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.core.metrics import error_class
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target, ToolOutput
from loadbook.tools.oha import ERROR_PATTERNS, asked_duration_s, offered_rate
from tool_captures import FIXTURES, capture, values, with_changed_json

OHA = base.load_tool("oha")
TARGET = Target("192.0.2.1", 8080)


def load(**changes: object) -> Workload:
    return Workload.model_validate({"tool": "oha", "path": "/a", "connections": 8} | changes)


changed = partial(with_changed_json, indent=2)


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "oha" / f"1.16.0--{name}.json")


def test_closed_load_lasts_for_a_time_or_a_number_of_requests() -> None:
    head = ["oha", "--no-tui", "--output-format", "json", "-c", "8"]
    tail = ["-t", "2000ms", "--redirect", "0", "http://192.0.2.1:8080/a"]
    assert OHA.command(load(), TARGET, 1.5) == [*head, "-z", "1500ms", *tail]
    assert OHA.command(load(requests=500), TARGET, 1.5) == [*head, "-n", "500", *tail]


def test_open_load_has_a_rate_and_corrected_latencies() -> None:
    argv = OHA.command(load(model="open", rate_per_s=2.5), TARGET, 2)
    assert argv[argv.index("-q") :][:3] == ["-q", "2.5", "--latency-correction"]
    assert offered_rate(argv) == 2.5 and asked_duration_s(argv) == 2.0


def test_tls_headers_and_connections_of_single_requests() -> None:
    argv = OHA.command(load(keepalive=False, headers={"X-A": "b c"}), TARGET._replace(scheme="https"), 2)
    assert {"--disable-keepalive", "--insecure", "X-A: b c"} <= set(argv) and argv[-1].startswith("https://")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threads": 2}, "threads"),
        ({"think_time_s": 0.1}, "think_time_s"),
        ({"timeout_s": 0.0005}, "whole milliseconds"),
        ({"extra": ("-z", "3s")}, "-z"),
        ({"extra": ("--latency-correction",)}, "--latency-correction"),
        ({"extra": ("-a", "me:secret")}, "a login"),
    ],
)
def test_load_that_oha_cannot_make_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        OHA.command(load(**changes), TARGET, 2)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Connection refused (os error 111)", "errors_connect"),
        ("timeout", "errors_timeout"),
        ("connection error", "errors_read"),
        ("Too many open files (os error 24)", "errors_driver"),
        ("Broken pipe (os error 32)", "errors_write"),
        ("something else", "errors_other"),
    ],
)
def test_error_text_has_a_class(text: str, name: str) -> None:
    assert error_class(text, ERROR_PATTERNS) == name


def test_requests_under_way_at_the_end_are_neither_requests_nor_errors() -> None:
    found = values(OHA.parse(case("clean_json")))
    assert found["requests", "count"] == 905 and found["errors", "count"] == 0


def test_latency_is_named_by_where_it_starts() -> None:
    output = case("rate_json")
    for argv, metric in (
        (output.argv, "service_time"),
        ((*output.argv, "--latency-correction"), "latency_intended"),
        (("oha", "-c", "10"), "latency"),
    ):
        parsed = OHA.parse(replace(output, argv=argv))
        assert {row.metric for row in parsed.measurements if row.statistic == "p99"} == {metric}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda report: report.pop("details"), "no 'details'"),
        (lambda report: report["details"].pop("DNSDialup"), "no 'DNSDialup'"),
        (lambda report: report["details"]["firstByte"].pop("average"), "details are not those"),
        (lambda report: report["summary"].pop("total"), "total is missing"),
        (lambda report: report["summary"].update(total=0), "0 s"),
        (lambda report: report["summary"].update(average=None), "average is missing"),
        (lambda report: report["summary"].update(requestsPerSec=300), "not 300 a second"),
        (lambda report: report["summary"].update(successRate=0.5), "success rate"),
        (lambda report: report["statusCodeDistribution"].update({"200": 906}), "are not|not the success"),
        (lambda report: report["statusCodeDistribution"].update({"abc": 1}), "impossible status"),
        (lambda report: report["responseTimeHistogram"].update({"9": 1}), "histogram has 906 of 905"),
        (lambda report: report["latencyPercentiles"].update(p90=9.0), "do not ascend"),
    ],
)
def test_report_that_lacks_something_or_contradicts_itself_is_refused(change: Any, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        OHA.parse(changed(case("clean_json"), change))


def test_cut_report_and_several_reports_are_refused() -> None:
    output = case("clean_json")
    with pytest.raises(ParseError, match="not complete"):
        OHA.parse(replace(output, stdout=output.stdout[:1000]))
    with pytest.raises(ParseError, match="two in one output"):
        OHA.parse(replace(output, stdout=output.stdout + b"\n" + output.stdout))


def test_requests_under_way_at_the_end_are_among_those_that_were_started() -> None:
    """404 of 415 requests are 97 %, the 400 that ended are not."""
    assert not OHA.parse(replace(case("rate_json"), argv=("-z", "2s", "-q", "207.5"))).doubts


def test_load_that_was_stopped_or_fell_behind_its_rate_is_doubtful() -> None:
    output = case("rate_json")
    for argv, name, words in (
        (("-z", "10s"), "stopped_early", "2 s of the 10 s"),
        (("-n", "500"), "stopped_early", "400 attempts, fewer than the 500"),
        (("-z", "2s", "-q", "300"), "offered_shortfall", "404 requests were started in 2 s, of 600"),
    ):
        ((found, sentence),) = OHA.parse(replace(output, argv=argv)).doubts
        assert found == name and words in sentence
