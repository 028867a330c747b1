"""jmeter: the plan and command that are made of a load, and the traps of what comes back."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from loadbook.core.errors import ParseError, StudyError, ToolError
from loadbook.study.reader import read_study
from loadbook.study.workload import Workload
from loadbook.tools import base, jmeter
from loadbook.tools.base import ParsedReport, Target, ToolOutput
from tool_captures import FIXTURES, attempt, capture, check_sane, table

WEB = Target("127.0.0.2", 8080)
JMETER = base.load_tool("jmeter")
OWN = """<jmeterTestPlan version="1.2"><hashTree><a>${__P(host)}:${__P(port,80)} ${__P(threads)}</a>
<b>${__property(duration)} ${__P(loops,-1)}</b></hashTree></jmeterTestPlan>"""


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "jmeter" / f"{name}.json")


def parsed(captured: ToolOutput) -> ParsedReport:
    found = JMETER.parse(captured)
    check_sane(found)
    return found


def values(captured: ToolOutput) -> dict[tuple[str, str], float]:
    return {key: row.value for key, row in table(parsed(captured).measurements).items()}


def load(**requested: object) -> Workload:
    return Workload.model_validate({"tool": "jmeter", "connections": 5} | requested)


def properties(argv: list[str]) -> dict[str, str]:
    return dict(word[2:].split("=", 1) for word in argv if word.startswith("-J"))


def plan(workload: Workload) -> ET.Element:
    return ET.fromstring(JMETER.extra_files(workload)["plan.jmx"])


def texts(element: ET.Element) -> dict[str, str]:
    return {p.get("name", ""): p.text or "" for p in element.iter() if p.tag in ("stringProp", "boolProp")}


def test_jmeter_workload_is_passed_as_properties_with_a_fixed_result_format() -> None:
    argv = JMETER.command(load(path="/p?a=1&b=%20", timeout_s=1.5, extra=("-Jramp=3",)), WEB, 4.0)
    assert argv[:9] == ["jmeter", "-n", "-f", "-t", "plan.jmx", "-l", "results.jtl", "-j", "jmeter.log"]
    assert argv[-1] == "-Jramp=3"
    found = properties(argv)
    assert {k: found[k] for k in ("host", "port", "scheme", "path", "threads", "duration", "timeout_ms")} == {
        **{"host": "127.0.0.2", "port": "8080", "scheme": "http", "path": "/p?a=1&b=%20"},
        **{"threads": "5", "duration": "4", "timeout_ms": "1500"},
    }
    assert found["sampleresult.timestamp.start"] == "true"
    saved = {k.removeprefix("jmeter.save.saveservice."): v for k, v in found.items() if "saveservice" in k}
    assert (saved["output_format"], saved["timestamp_format"], saved["print_field_names"]) == ("csv", "ms", "true")
    assert saved["autoflush"] == "false" and saved["url"] == "false" and saved["latency"] == "true"
    assert list(JMETER.expected_files(load())) == ["results.jtl", "jmeter.log"]


def test_jmeter_number_of_requests_is_split_among_threads() -> None:
    requested = load(requests=100)
    assert properties(JMETER.command(requested, WEB, 4.0))["loops"] == "20"
    assert texts(plan(requested))["ThreadGroup.scheduler"] == "false"
    assert texts(plan(load()))["ThreadGroup.scheduler"] == "true"
    assert JMETER.command(requested.with_duration(1.5 * requested.duration_s, 0), WEB, 4.0)


def test_jmeter_open_load_and_think_time_use_separate_timers() -> None:
    requested = load(model="open", rate_per_s=12.5)
    assert properties(JMETER.command(requested, WEB, 4.0))["rate"] == "12.5"
    (timer,) = plan(requested).iter("PreciseThroughputTimer")
    assert texts(timer)["throughput"] == "${__P(rate)}" and texts(timer)["duration"] == "${__P(duration)}"
    requested = load(think_time_s=0.25)
    assert properties(JMETER.command(requested, WEB, 4.0))["think_ms"] == "250"
    (timer,) = plan(requested).iter("ConstantTimer")
    assert texts(timer)["ConstantTimer.delay"] == "${__P(think_ms)}"
    assert not [e for e in plan(load()).iter() if "Timer" in e.tag]


def test_jmeter_headers_are_escaped_and_keep_alive_is_a_setting_of_the_sampler() -> None:
    requested = load(headers={"X-A": '<&>"$x', "X-Empty": ""}, keepalive=False)
    (manager,) = plan(requested).iter("HeaderManager")
    sent = [(texts(h)["Header.name"], texts(h)["Header.value"]) for h in manager.iter("elementProp")]
    assert sent == [("X-A", '<&>"$x'), ("X-Empty", "")]
    assert texts(plan(requested))["HTTPSampler.use_keepalive"] == "false"
    assert texts(plan(load()))["HTTPSampler.use_keepalive"] == "true"


@given(st.dictionaries(st.from_regex(r"[A-Za-z$&'-]{1,12}", fullmatch=True), st.text(st.characters(max_codepoint=126))))
@settings(max_examples=examples(60), deadline=None)
def test_jmeter_arbitrary_header_is_written_unchanged_or_refused(headers: dict[str, str]) -> None:
    requested = Workload.model_construct(**(load().model_dump() | {"headers": headers}))
    try:
        found = plan(requested)
    except (ToolError, ET.ParseError):
        assert any("${" in k + v or k.lower() == "connection" or not v.isprintable() for k, v in headers.items())
    else:
        sent = {
            texts(h)["Header.name"]: texts(h)["Header.value"] for h in found.iter("elementProp") if h.get("name") == ""
        }
        assert sent == headers or any(not v.isprintable() for v in headers.values())


@pytest.mark.parametrize(
    ("requested", "duration_s", "says"),
    [
        ({}, 1.5, "whole seconds only: duration = 1.5 s"),
        ({"timeout_s": 0.0001}, 1, "whole milliseconds only: timeout_s"),
        ({"think_time_s": 0.0001}, 1, "whole milliseconds only: think_time_s"),
        ({"requests": 101}, 1, "101 requests evenly among 5"),
        ({"threads": 2}, 1, "a thread for each connection"),
        ({"calls_per_connection": 5}, 1, "calls_per_connection"),
        ({"path": "/a#b"}, 1, "cannot request the path"),
        ({"path": "/a?${b}"}, 1, "cannot request the path"),
        ({"headers": {"a b": "c"}}, 1, "not a header name"),
        ({"headers": {"A": "${x}"}}, 1, "as an expression"),
        ({"headers": {"Connection": "close"}}, 1, "sends the header Connection itself"),
        ({"model": "open", "rate_per_s": 1e7}, 10, "draws all 1e[+]08 starts"),
        ({"extra": ("-l", "x")}, 1, "-l of jmeter comes from the workload"),
        ({"extra": ("-Jhost=x",)}, 1, "host is set by loadbook"),
        ({"extra": ("-Jjmeter.save.saveservice.url=true",)}, 1, "url is set by loadbook"),
        ({"plan": "a.jmx"}, 1, "a.jmx is not XML"),
        ({"plan": "a.jmx", "plan_text": "<html/>"}, 1, "is no JMeter test plan"),
        ({"plan": "a.jmx", "plan_text": "<!DOCTYPE a><jmeterTestPlan/>"}, 1, "is no JMeter test plan"),
        ({"plan": "a.jmx", "plan_text": "<jmeterTestPlan/>"}, 1, "does not read host, port, threads, duration"),
        ({"plan": "a.jmx", "plan_text": OWN, "think_time_s": 1}, 1, "does not read think_ms"),
        ({"plan": "a.jmx", "plan_text": OWN, "model": "open", "rate_per_s": 1}, 1, "does not read rate"),
        ({"plan": "a.jmx", "plan_text": OWN, "keepalive": False}, 1, "decides on headers and keep-alive itself"),
    ],
)
def test_jmeter_unsupported_workload_is_refused_before_the_run(
    requested: dict[str, object], duration_s: float, says: str
) -> None:
    with pytest.raises(ToolError, match=says) as refusal:
        JMETER.command(load(**requested), WEB, duration_s)
    assert refusal.value.hint


def test_jmeter_user_plan_is_used_unchanged_and_stored(tmp_path: Path) -> None:
    study = tmp_path / "own.toml"
    study.write_text(
        'schema = 1\nname = "own"\nquestion = "Which?"\nbaseline = "a"\n[roles.driver]\n[roles.web]\n'
        'service = "nginx"\n[workload]\ntool = "jmeter"\nplan = "mine.jmx"\n[treatments.a]\n[treatments.b]\n'
        'workload = { plan = "other.jmx" }\n'
    )
    with pytest.raises(StudyError, match=r"workload.plan: 'mine.jmx' beside the study cannot be read: No such file"):
        read_study(study)
    (tmp_path / "mine.jmx").write_text(OWN)
    (tmp_path / "other.jmx").write_text(OWN.replace("<a>", "<a>b "))
    found = read_study(study)
    assert JMETER.extra_files(found.workload_of("a"))["plan.jmx"] == OWN.encode()
    assert b"<a>b " in JMETER.extra_files(found.workload_of("b"))["plan.jmx"]
    with pytest.raises(ToolError, match="wrk has no plans"):
        base.load_tool("wrk").command(found.workload.model_copy(update={"tool": "wrk"}), WEB, 1)


def test_jmeter_version_probe_recognises_the_debian_package() -> None:
    assert JMETER.version(case("5.6.3--version").stdout, b"") == "5.6.3"
    with pytest.raises(ToolError, match=r"2\.13 is too old: Debian's package jmeter 2\.13 cannot load any plan") as old:
        JMETER.version(b"Copyright (c) 1998-2015 The Apache Software Foundation\nVersion 2.13 r1665067\n", b"")
    assert "make jmeter" in (old.value.hint or "")
    with pytest.raises(ToolError, match=r"3\.3 is too old"):
        JMETER.version(b"\\_\\ 3.3 r1808647\n", b"")
    with pytest.raises(ToolError, match="no version") as none:
        JMETER.version(b"", b"sh: jmeter: not found\n")
    assert "make jmeter" in (none.value.hint or "")


def test_jmeter_results_file_without_console_output_is_read() -> None:
    alone = ToolOutput(case("5.1.1--tx").files["out.jtl"])
    assert values(alone) == values(case("5.1.1--tx"))
    assert values(ToolOutput(case("5.6.3--xml_tx").files["out.jtl"])) == values(case("5.6.3--xml_tx"))
    with pytest.raises(ParseError, match="stdout:2: 16 fields"):
        JMETER.parse(ToolOutput(alone.stdout.replace(b",200,OK", b",200", 2)))
    two = replace(case("5.1.1--tx"), files={"a.jtl": b"", "b.jtl": b""})
    with pytest.raises(ParseError, match=r"several files of results: a\.jtl, b\.jtl"):
        JMETER.parse(two)
    files = {"a.jtl": b"", "results.jtl": case("5.1.1--tx").files["out.jtl"]}
    assert values(replace(two, files=files)) == values(alone)


def test_jmeter_transactions_and_sub_results_are_counted_once() -> None:
    """Plans of the captures: 10 rounds of the requests a to e; 10 rounds of 2 pages, 2.13 to 5.1.1 alike."""
    rows = values(case("5.1.1--tx"))
    assert rows["requests", "count"] == 50 and rows["errors_status", "count"] == 10
    assert {values(case(f"{v}--embedded"))["requests", "count"] for v in ("2.13", "3.3", "5.1.1")} == {20}


def test_jmeter_results_of_several_runs_are_refused() -> None:
    whole = case("5.6.3--csv_https")
    again = whole.files["out.jtl"] + whole.files["out.jtl"].split(b"\n", 1)[1]
    with pytest.raises(ParseError, match="the file holds a run twice"):
        JMETER.parse(replace(whole, files={"out.jtl": again}))
    more = whole.files["out.jtl"] + whole.files["out.jtl"].split(b"\n", 3)[3]
    with pytest.raises(ParseError, match=r"samples 1998 \(summary: 1000\); several runs in one file"):
        JMETER.parse(replace(whole, files={"out.jtl": more}))
    with pytest.raises(ParseError, match="two runs in one output"):
        JMETER.parse(replace(whole, stdout=whole.stdout + whole.stdout))
    slower = whole.files["out.jtl"].replace(b",264,HTTP", b",999,HTTP", 1)
    with pytest.raises(ParseError, match=r"max 999 \(summary: "):
        JMETER.parse(replace(whole, files={"out.jtl": slower}))


def test_jmeter_truncated_results_keep_complete_rows_with_a_doubt() -> None:
    killed = case("5.6.3--sigkill")
    doubts = dict(parsed(killed).doubts)
    assert values(killed)["requests", "count"] == 1947 and list(doubts) == ["torn", "stopped_early", "exit_code"]
    assert "out.jtl:1949" in doubts["torn"]


def test_jmeter_parser_returns_every_time_and_the_span_of_the_samples() -> None:
    found = parsed(case("5.6.3--csv_https"))
    assert sum(found.times_us["latency"].values()) == 1000 == sum(found.times_us["ttfb"].values())
    assert found.span is not None and found.span[1] - found.span[0] == pytest.approx(0.896, abs=1e-6)
    assert Counter({s.metric for s in found.samples}) == Counter(["requests_per_s", "ok_per_s", "errors"])
    assert sum(s.value for s in found.samples if s.metric == "requests_per_s") == 1000


def test_jmeter_offered_rate_and_early_stop_come_from_the_command() -> None:
    whole = case("5.6.3--csv_https")
    assert values(replace(whole, argv=("jmeter", "-Jrate=50")))["offered_per_s", "value"] == 50
    assert ("offered_per_s", "value") not in values(whole)
    fewer = replace(whole, argv=("jmeter", "-Jthreads=10", "-Jloops=101"))
    assert "fewer than the 1010 requests" in dict(parsed(fewer).doubts)["stopped_early"]


def test_jmeter_empty_results_have_zeros_and_missing_results_are_refused() -> None:
    header = case("5.6.3--report_of_empty").files["x.jtl"]
    found = values(ToolOutput(header))
    assert {found[k, "count"] for k in ("requests", "ok", "errors")} == {0} and ("duration", "value") not in found
    for text in (b"", b"\n", b"hello\nworld\n"):
        with pytest.raises(ParseError):
            JMETER.parse(ToolOutput(text))


def test_jmeter_properties_determine_all_20_saved_columns() -> None:
    decided = {*jmeter.SAVED_COLUMNS, *jmeter.UNSAVED_COLUMNS}
    assert len(decided) == len(jmeter.SAVED_COLUMNS) + len(jmeter.UNSAVED_COLUMNS) == 20


CHANGES = st.tuples(
    st.integers(0, 10**6), st.integers(0, 3), st.sampled_from([b"", b",", b'"', b"\n", b"-", b"9", b"\0"])
)


@given(
    st.sampled_from(["5.6.3--xml_tx", "5.6.3--csv_tab", "5.1.1--tx", "2.13--errors", "5.6.3--csv_few_columns"]),
    st.lists(CHANGES, min_size=1, max_size=4),
    st.booleans(),
)
@settings(max_examples=examples(150), deadline=None)
def test_jmeter_randomly_changed_results_give_possible_values_or_are_refused(
    name: str, changes: list[tuple[int, int, bytes]], alone: bool
) -> None:
    whole = case(name)
    raw = bytearray(whole.files["out.jtl"])
    for at, length, new in changes:
        raw[at % len(raw) : at % len(raw) + length] = new
    attempt("jmeter", ToolOutput(bytes(raw)) if alone else replace(whole, files={"out.jtl": bytes(raw)}))


def test_jmeter_truncated_results_give_their_complete_rows_or_are_refused() -> None:
    whole = case("5.6.3--csv_few_columns").files["out.jtl"]
    for size in range(1, len(whole), 97):
        found = attempt("jmeter", ToolOutput(whole[:size]))
        if found is not None:
            assert table(found.measurements)["requests", "count"].value == whole[:size].count(b"\n") - 1
            assert ("torn" in dict(found.doubts)) == (whole[size - 1 : size] != b"\n")


def test_jmeter_expected_values_have_the_known_number_of_read_errors() -> None:
    rows = json.loads((FIXTURES / "jmeter" / "5.6.3--csv_all_columns.json").read_text())["rows"]
    assert {r["metric"]: r["value"] for r in rows if r["statistic"] == "count"}[
        "errors_read"
    ] == 18  # 3 requests, 6 rounds


HEADER = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,bytes,grpThreads,allThreads,Latency"


def jtl(*rows: str, header: str = HEADER) -> ToolOutput:
    return ToolOutput("\n".join([header, *rows, ""]).encode())


def test_jmeter_latency_of_zero_in_every_row_gives_no_ttfb() -> None:
    rows = [f"{1790000000000 + 100 * k},{50 + k},home,200,OK,t 1-1,true,500,1,1,0" for k in range(5)]
    assert not [key for key in values(jtl(*rows)) if key[0] == "ttfb"]
    rows[0] = rows[0].removesuffix(",0") + ",7"
    assert values(jtl(*rows))["ttfb", "max"] == pytest.approx(0.007)


@pytest.mark.parametrize(("yes", "no"), [("true", "false"), ("True", "False"), ("TRUE", "FALSE"), ("tRUE", "fALSE")])
def test_jmeter_success_column_is_read_in_upper_and_lower_case(yes: str, no: str) -> None:
    words = [yes, yes, no]
    got = values(jtl(*(f"179000000000{k},50,home,200,OK,t 1-1,{word},500,1,1,3" for k, word in enumerate(words))))
    assert (got["requests", "count"], got["ok", "count"]) == (3, 2)


def test_jmeter_results_with_transactions_only_raise_a_doubt() -> None:
    message = '"Number of samples in transaction : 2, number of failing samples : 0"'
    row = f"1790000000000,264,tran,200,{message},t 1-1,true,9,1,1,3"
    assert dict(JMETER.parse(jtl(row)).doubts)["no_samples"] == "stdout has no samples: all 1 rows are transactions"
    assert "no_samples" in dict(JMETER.parse(jtl()).doubts)


def test_jmeter_results_without_column_elapsed_are_refused_with_their_columns() -> None:
    with pytest.raises(ParseError, match="a header of JMeter results without the column elapsed or timeStamp: label"):
        JMETER.parse(jtl(header="label,responseCode,threadName,success"))
    with pytest.raises(ParseError, match="no report of jmeter"):
        JMETER.parse(ToolOutput(b"ApacheJMeter.jar\tis a file\n"))


def samples(starts_ms: list[int]) -> ToolOutput:
    rows = "".join(f"{1710000000000 + ms},20,Home,200,OK,Users 1-1,true,740,17\n" for ms in starts_ms)
    head = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,bytes,Latency\n"
    return ToolOutput(b"", files={"results.jtl": (head + rows).encode()})


def test_runs_that_were_appended_to_one_file_have_no_rate_and_no_duration() -> None:
    run = list(range(0, 10_000, 250))
    parsed = JMETER.parse(samples([*run, *(2_410_000 + ms for ms in run)]))
    found = table(parsed.measurements)
    assert (found["requests", "count"].value, found["ok", "count"].value) == (80, 80)
    assert not {"requests_per_s", "ok_per_s", "bytes_per_s", "duration"} & {metric for metric, _ in found}
    assert "nothing was under way for 40 min" in dict(parsed.doubts)["runs_appended"]
    assert ", so these may be 2 runs: " in dict(parsed.doubts)["runs_appended"] and "no_times" not in dict(
        parsed.doubts
    )


@pytest.mark.parametrize("starts_ms", [[i * 90_000 for i in range(40)], [*range(0, 30_000, 250), 85_000]])
def test_load_that_pauses_between_all_requests_or_briefly_is_one_run(starts_ms: list[int]) -> None:
    parsed = JMETER.parse(samples(starts_ms))
    assert "runs_appended" not in dict(parsed.doubts)
    assert ("requests_per_s", "value") in table(parsed.measurements)


def test_sample_with_an_answer_and_the_time_stamp_0_is_named() -> None:
    output = samples([0, 250, 500])
    data = output.files["results.jtl"].replace(b"1710000000250", b"0")
    with pytest.raises(ParseError, match=r"timeStamp is 0, .*remove such rows") as refused:
        JMETER.parse(replace(output, files={"results.jtl": data}))
    assert refused.value.line == 3
