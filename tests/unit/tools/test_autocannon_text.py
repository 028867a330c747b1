"""autocannon's table: what it tells and what it rounds, changed, cut and contradictory ones, and wrk's text."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from loadbook.core.errors import ParseError
from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import FIXTURES, attempt, capture, check_sane, table, values

AUTOCANNON = base.load_tool("autocannon")
NAMES = ("clean_text", "latency_all_text", "mix404_text", "mix404_plain_text", "fast_text", "refused_text")
# numbers that follow from one printed number
SHARED = {
    ("requests", "ok", "requests_per_s", "ok_per_s", "status_2xx"),
    ("duration", "requests_per_s", "ok_per_s", "bytes_per_s"),
}
SHARED_BY_ERRORS = {"errors", "errors_timeout", "errors_other"}
SHARED |= {
    ("bytes_read", "bytes_per_s"),
    ("errors", "errors_timeout", "errors_other"),
    ("status_4xx", "status_5xx", "ok"),
}


def printed(name: str) -> ToolOutput:
    """Return a table in a file, with its command unknown."""
    return ToolOutput(capture(FIXTURES / "autocannon" / f"9.0.0--{name}.json").stderr)


def changed(name: str, *swaps: tuple[str, str]) -> ToolOutput:
    text = printed(name).stdout.decode()
    for old, new in swaps:
        assert old in text
        text = text.replace(old, new, 1)
    return ToolOutput(text.encode())


def test_table_is_read_as_printed_on_either_stream() -> None:
    output = printed("latency_all_text")
    parsed = AUTOCANNON.parse(output)
    check_sane(parsed)
    rows = table(parsed.measurements)
    assert rows["requests", "count"].value == 1741 and rows["duration", "value"].text == "2.02s"
    assert rows["latency", "mean"].text == "5.27 ms" and rows["latency", "mean"].value == pytest.approx(0.00527)
    assert rows["latency", "mean"].resolution == pytest.approx(1e-5)
    assert rows["latency", "p99.9"].value == 0.019 and rows["latency", "p90"].value == 0.005
    assert rows["bytes_read", "count"].value == 160_000 and rows["bytes_read", "count"].text == "160 kB"
    on_stderr = AUTOCANNON.parse(ToolOutput(b"", output.stdout))
    assert on_stderr.measurements == parsed.measurements and [*dict(parsed.doubts)] == ["whole_ms", "errors_unseen"]


def test_rounded_number_of_responses_gives_rates_alone() -> None:
    found = values(AUTOCANNON.parse(printed("fast_text")))
    assert not {("requests", "count"), ("ok", "count")} & found.keys()
    assert found["requests_per_s", "value"] == found["ok_per_s", "value"] == pytest.approx(2433 * 2 / 2.05)


def test_statuses_are_exact_and_redirects_unknown_without_them() -> None:
    found = values(AUTOCANNON.parse(printed("mix404_text")))
    assert (found["requests", "count"], found["ok", "count"], found["status_4xx", "count"]) == (4159, 3327, 832)
    parsed = AUTOCANNON.parse(printed("mix404_plain_text"))
    found = values(parsed)
    assert (found["requests", "count"], found["status_2xx", "count"]) == (3793, 3035)
    assert not {metric for metric, _ in found} & {"ok", "ok_per_s", "errors", "errors_status"}
    assert "non_2xx" in dict(parsed.doubts)


def test_thousands_of_errors_are_doubtful() -> None:
    parsed = AUTOCANNON.parse(printed("refused_text"))
    assert values(parsed)["errors", "count"] == 1000 and [*dict(parsed.doubts)] == ["rounded_counts"]


def test_requests_that_were_lost_or_ended_early_are_doubtful() -> None:
    assert "unanswered" in dict(AUTOCANNON.parse(changed("clean_text", ("906 req", "956 req"))).doubts)
    assert "stopped_early" in dict(AUTOCANNON.parse(changed("clean_text", ("Running 2s", "Running 5s"))).doubts)


def test_warm_up_is_not_the_run() -> None:
    output = printed("clean_text")
    warm = b"Running 1s warmup @ http://127.0.0.1:8080/\n1 connections\n\n"
    for text in (warm + output.stdout, output.stdout + warm):
        assert AUTOCANNON.parse(ToolOutput(text)) == AUTOCANNON.parse(output)


def test_workers_share_the_samples() -> None:
    output = changed("clean_text", ("5 connections", "5 connections\n2 workers"), ("samples: 2", "samples: 4"))
    assert values(AUTOCANNON.parse(output)) == values(AUTOCANNON.parse(printed("clean_text")))
    found = values(AUTOCANNON.parse(changed("clean_text", ("5 connections", "5 connections\n3 workers"))))
    assert ("requests_per_s", "value") not in found and ("latency", "p99") in found


@pytest.mark.parametrize("name", NAMES)
def test_changed_digit_is_refused_or_changes_just_its_number(name: str) -> None:
    whole, text = values(AUTOCANNON.parse(printed(name))), printed(name).stdout.decode()
    refused = 0
    for digit in re.finditer(r"\d", text[text.index("┌") :]):
        at = text.index("┌") + digit.start()
        parsed = attempt(
            "autocannon", ToolOutput((text[:at] + str((int(digit[0]) + 3) % 10) + text[at + 1 :]).encode())
        )
        refused += parsed is None
        found = values(parsed) if parsed else whole
        # more errors, or longer times than connections can have, make them those of attempts
        found = {(metric.replace("attempt_time", "latency"), s): value for (metric, s), value in found.items()}
        different = {key[0] for key in whole.keys() | found.keys() if found.get(key) != whole.get(key)}
        single = {key for key in whole if found.get(key) != whole[key]} if different == {"latency"} else set()
        line = text[text.rfind("\n", 0, at) : text.find("\n", at)]
        assert len(different) <= 1 or any(different <= set(names) for names in SHARED), line
        assert len(single) <= 1, line
    assert refused > 20


@pytest.mark.parametrize("name", NAMES)
def test_cut_table_is_refused_or_read_as_the_whole(name: str) -> None:
    output = printed(name)
    whole = values(AUTOCANNON.parse(output))
    for end in range(len(output.stdout)):
        parsed = attempt("autocannon", ToolOutput(output.stdout[:end]))
        if parsed is not None and "errors_unseen" in dict(parsed.doubts):
            expected = {key: value for key, value in whole.items() if key[0] not in SHARED_BY_ERRORS}
            found = {key: value for key, value in values(parsed).items() if key[0] not in SHARED_BY_ERRORS}
            assert found == expected, output.stdout[:end][-60:]
        else:
            assert parsed is None or values(parsed) == whole, output.stdout[:end][-60:]


def test_table_whose_line_of_errors_may_be_cut_off_has_a_note() -> None:
    whole = printed("clean_text").stdout
    for data in (whole + b"\n", whole + b"$ exit\n"):
        parsed = AUTOCANNON.parse(ToolOutput(data))
        assert values(parsed)["errors", "count"] == 0 and "errors_unseen" not in dict(parsed.doubts)
    for name in ("clean_text", "fast_text", "mix404_text"):
        parsed = AUTOCANNON.parse(printed(name))
        assert "errors_unseen" in dict(parsed.doubts) and values(parsed)["errors_other", "count"] == 0
    every_request = AUTOCANNON.parse(changed("clean_text", ("906 requests", "901 requests")))
    assert values(every_request)["errors", "count"] == 0 and "errors_unseen" not in dict(every_request.doubts)


@pytest.mark.parametrize("name", NAMES)
def test_lost_line_with_numbers_is_refused(name: str) -> None:
    lines = printed(name).stdout.decode().splitlines(keepends=True)
    for place, line in enumerate(lines):
        seen = re.match(
            r"│ (?:Stat|Latency|Req/Sec|Bytes/Sec|200|404|50 |99 )|Running|\d+ conn|Req/Bytes|\S+ requests", line
        )
        if seen:
            assert attempt("autocannon", ToolOutput("".join(lines[:place] + lines[place + 1 :]).encode())) is None, line


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("clean_text", "82.9 kB read", "82.9 MB read", "are not 41.4 kB in 2 samples"),
        ("clean_text", "41.4 kB", "41.4 MB", "do not ascend"),
        ("clean_text", "10.5 ms", "10.5 s ", "line cut or changed"),
        ("clean_text", "450.5", "450,5", "line cut or changed"),
        ("fast_text", "3,761", "3.761", "line cut or changed"),
        ("clean_text", "450.5 ", "450.7 ", "no whole number"),
        ("clean_text", "906 requests", "806 requests", "901 responses to 806 requests"),
        ("clean_text", "2.01s", "0s", "a duration of 0 s"),
        ("clean_text", "2.01s", "9.01s", "9.01 s does not follow from 2 samples of 1 s"),
        ("clean_text", "2.01s", "1.01s", "1.01 s does not follow from 2 samples of 1 s"),
        ("sampled_text", "2.02s", "4.02s", "4.02 s does not follow from 4 samples of 0.5 s"),
        ("clean_text", "19 ms", "12 ms", "do not ascend"),
        ("latency_all_text", "│ 97.5       │ 8 ", "│ 97.5       │ 9 ", "not those of the table above"),
        ("latency_all_text", "│ 99.9       │ 19", "│ 99.9       │ 10", "do not ascend"),
        ("mix404_text", "│ 404  │ 832 ", "│ 404  │ 831 ", "not those of the line below"),
        ("mix404_text", "│ 404  │ 832 ", "│ 200  │ 832 ", "there twice"),
        ("mix404_plain_text", "758 non", "768 non", "are not 3,793 in each of 1 samples"),
        ("refused_text", "(0 timeouts)", "(2k timeouts)", "more time-outs than errors"),
        ("refused_text", "1k errors (0 timeouts)", "1k", "line of errors is cut"),
    ],
)
def test_table_that_contradicts_itself_is_refused(name: str, old: str, new: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        AUTOCANNON.parse(changed(name, (old, new)))


def test_two_tables_in_one_output_are_refused() -> None:
    with pytest.raises(ParseError, match="two reports in one"):
        AUTOCANNON.parse(replace(printed("clean_text"), stdout=printed("clean_text").stdout * 2))


def test_tables_of_autocannon_and_texts_of_wrk_are_told_apart() -> None:
    wrk = capture(FIXTURES / "wrk" / "4.1.0--tls.json")
    for tool, output in (("wrk", printed("clean_text")), ("autocannon", wrk)):
        with pytest.raises(ParseError) as refusal:
            base.load_tool(tool).parse(output)
        assert refusal.value.is_of_another_program


def test_rates_of_both_forms_are_over_the_same_duration() -> None:
    shared = {"requests", "ok", "requests_per_s", "ok_per_s", "duration", "bytes_read", "bytes_per_s"}
    text, report = (
        AUTOCANNON.parse(capture(FIXTURES / "autocannon" / f"9.0.0--{name}.json"))
        for name in ("clean_text", "clean_json")
    )
    for parsed, other in pairwise((text, report, text)):
        assert shared <= {metric for metric, _ in values(parsed)} & {metric for metric, _ in values(other)}
