"""Validity rules on outputs of real tools: which captures break them, and that clean ones do not."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from captured_trials import check_capture
from loadbook.core.validity_rules import RULE_INFO
from loadbook.tools import base
from tool_captures import good
from valid_trial import named

PACKAGE = Path(base.__file__).parents[1]
SOURCES = [*(PACKAGE / "tools").glob("*.py"), *(PACKAGE / "request_logs").glob("*.py")]
OPEN = {"model": "open"}
# gate, level, tool, capture, workload
TRIPPED = [
    ("zero_work", "invalid", "h2load", "1.52.0--duration_nothing", {}),
    ("zero_work", "invalid", "wrk", "4.1.0--close_always", {}),
    ("zero_work", "invalid", "weighttp", "0.4--server_down", {}),
    ("error_responses", "invalid", "wrk", "4.1.0--lua_404", {}),
    ("error_responses", "invalid", "ab", "2.3--non2xx_mix", {}),
    ("error_responses", "invalid", "h2load", "1.52.0--mix500", {}),
    ("error_responses", "invalid", "httperf", "0.9.0--s502", OPEN),
    ("socket_errors", "invalid", "wrk", "4.1.0--worker_killed_midrun", {}),
    ("socket_errors", "invalid", "httperf", "0.9.0--client_timo_some", OPEN),
    ("driver_limits", "invalid", "httperf", "0.9.0--fd_unavail_nofile64", OPEN),
    ("ports_exhausted", "invalid", "httperf", "0.9.0--addrunavail_netns", OPEN),
    ("bytes_per_response", "doubt", "wrk", "4.1.0--size_8k", {"expect_bytes": 524_288, "connections": 50}),
    ("bytes_per_response", "doubt", "wrk2", "4.0.0--big_512k", OPEN | {"expect_bytes": 5, "connections": 20}),
    ("offered_ceiling", "doubt", "wrk2", "4.0.0--R2000_d14_latency", OPEN),
    ("offered_shortfall", "doubt", "wrk2", "4.0.0--overload_R300k_d4", OPEN),
    ("offered_shortfall", "doubt", "httperf", "0.9.0--saturated_r20000", OPEN),
    ("little_law", "doubt", "h2load", "1.52.0--server_killed_D3", {"connections": 20}),
    ("little_law", "doubt", "weighttp", "0.5--server_killed", {"connections": 20}),
    ("too_short", "doubt", "ab", "2.3--csv_n10", {}),
    ("too_short", "doubt", "httperf", "0.9.0--close_10", OPEN),
    ("too_short", "doubt", "wrk2", "4.0.0--overload_R300k_d4", OPEN),
    ("clock", "invalid", "httperf", "0.9.0--one_one", OPEN),
    ("request_cap", "doubt", "ab", "2.3--t3", {}),
    ("stopped_early", "doubt", "wrk", "4.1.0--lua_sigint", {}),
    ("connections", "doubt", "wrk", "4.1.0--connections_10_threads_3", {}),
    ("connections", "doubt", "h2load", "1.52.0--nofile32", {}),
    ("connections_lost", "doubt", "h2load", "1.52.0--goaway_h2_D1", {}),
    ("keepalive", "doubt", "ab", "2.3--wconn_r", {}),
    ("driver_disturbed", "doubt", "httperf", "0.9.0--all_timeouts", OPEN),
    ("not_http", "invalid", "httperf", "0.9.0--garbage", OPEN),
    ("zero_bytes", "invalid", "ab", "2.3--tls_to_plain", {}),
    ("non_2xx", "doubt", "ab", "2.3--post405", {}),
    ("errors_overlap", "doubt", "ab", "2.3--server_killed_r", {}),
    ("unanswered", "doubt", "weighttp", "0.4--wconn", {}),
    ("timeouts_weighted", "doubt", "wrk2", "4.0.0--server_killed_midrun", OPEN),
    ("latency_censored", "doubt", "wrk", "4.1.0--timeouts_3s", {}),
    ("whole_ms", "doubt", "ab", "2.3--n20000_c50", {}),
    ("options", "doubt", "ab", "2.3--badopt", {}),
    ("exit_code", "doubt", "wrk", "4.1.0--lua_panic", {}),
]


@pytest.mark.parametrize(("gate", "level", "tool", "case", "workload"), TRIPPED, ids=lambda v: v if v else "")
def test_captured_output_with_a_problem_triggers_its_rule(
    gate: str, level: str, tool: str, case: str, workload: dict
) -> None:
    hits = named(check_capture(tool, case, **workload), gate)
    assert [hit.level for hit in hits] == [level]
    assert RULE_INFO[gate].remedy in hits[0].message


@pytest.mark.parametrize(
    ("tool", "case", "workload"),
    [
        ("wrk", "4.1.0--lua_clean", {"connections": 20}),
        ("wrk", "4.1.0--size_8k", {"connections": 50, "expect_bytes": 8192}),
        ("wrk", "4.1.0--ns64k_single", {"connections": 50, "expect_bytes": 65536}),
        ("h2load", "1.52.0--duration_D4", {"connections": 20}),
        ("h2load", "1.52.0--freeze_1s", {"connections": 1}),
        ("h2load", "1.52.0--h1_n20000", {"connections": 20}),
        ("h2load", "1.52.0--size_512k_h2", {"connections": 10, "expect_bytes": 524_288}),
        ("weighttp", "0.5--ka_n200000_c50_t2", {"connections": 50}),
        ("weighttp", "0.5--pipeline_K8", {"connections": 20}),
        ("ab", "2.3--csv_gnuplot", {"connections": 20}),
    ],
)
def test_captured_output_without_problems_triggers_no_rule(tool: str, case: str, workload: dict) -> None:
    assert [hit for hit in check_capture(tool, case, **workload) if hit.level != "unchecked"] == []


def test_percentile_rule_needs_twenty_requests_beyond_it() -> None:
    (hit,) = named(check_capture("ab", "2.3--https_tls12", connections=10), "too_short")
    assert hit.message.startswith("p99 is that of 1,000 requests: 10 lie beyond it, 20 are needed")
    assert named(check_capture("ab", "2.3--https_tls12", {"min_tail_requests": 10}, connections=10), "too_short") == []


def test_littles_law_holds_for_captured_closed_loads_without_problems() -> None:
    requested = {
        "h2load": {"1.52.0--duration_D4": 20, "1.52.0--duration_D4_warm1": 20, "1.52.0--freeze_1s": 1},
        "weighttp": {"0.5--ka_n200000_c50_t2": 50, "0.5--pipeline_K8": 20, "0.5--sigint": 20},
        "ab": {"2.3--https_tls12": 10},
        "jmeter": {"5.1.1--summariser": 10},
    }
    for tool, captures in requested.items():
        for case, connections in captures.items():
            assert not named(check_capture(tool, case, connections=connections), "little_law"), case
            assert named(check_capture(tool, case, connections=4 * connections), "little_law"), case


@pytest.mark.parametrize("tool", ["ab", "h2load", "weighttp"])
def test_littles_law_reports_why_it_is_unchecked(tool: str) -> None:
    for path in good(tool):
        hits = named(check_capture(tool, path.stem, connections=1_000_000), "little_law")
        assert hits[0].level == "unchecked", path.stem
        assert hits[0].message.startswith("not checked: ")


def test_threshold_of_the_study_overrides_the_doubt_of_the_parser() -> None:
    assert named(check_capture("wrk2", "4.0.0--overload_R300k_d4", {"offered_shortfall": 0.2}, **OPEN), "too_short")
    lenient = check_capture("wrk2", "4.0.0--overload_R300k_d4", {"offered_shortfall": 0.2}, **OPEN)
    assert not named(lenient, "offered_shortfall")


def test_expected_redirects_are_not_errors() -> None:
    assert named(check_capture("ab", "2.3--non2xx_302"), "error_responses")[0].message.startswith(
        "3,000 of 3,000 responses were not 2xx"
    )
    (hit,) = named(check_capture("ab", "2.3--non2xx_302", expect_status=302), "error_responses")
    assert hit.level == "unchecked"


def test_timeouts_that_wrk2_counts_repeatedly_are_not_attempts() -> None:
    assert not named(check_capture("wrk2", "4.0.0--server_killed_midrun", **OPEN), "socket_errors")  # type: ignore[arg-type]


def doubts_in(path: Path) -> set[str]:
    """Return the names that a module yields beside a message, and those that it gives to damage of a results file."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    raising = [
        n for n in nodes if isinstance(n, ast.FunctionDef) and n.returns and "[str, str]" in ast.unparse(n.returns)
    ]
    yields = [n.value for f in raising for n in ast.walk(f) if isinstance(n, ast.Yield)]
    found = [pair.elts[0] for pair in yields if isinstance(pair, ast.Tuple)]
    found += [n.args[0] for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "Damage"]
    return {str(e.value) for e in found if isinstance(e, ast.Constant) and isinstance(e.value, str)}


def test_every_tool_doubt_has_a_rule() -> None:
    named_by = {path.name: doubts_in(path) for path in SOURCES}
    assert sum(map(len, named_by.values())) > 20
    for module, names in named_by.items():
        assert not names - set(RULE_INFO), f"{module}: add these doubts to core/validity_rules.toml"


def test_every_doubt_raised_on_captured_outputs_has_a_rule() -> None:
    found = set().union(*(doubts_in(path) for path in SOURCES))
    for tool in base.tool_names():
        for path in good(tool):
            raised = {hit.name for hit in check_capture(tool, path.stem)}
            assert "tool_doubt" not in raised, path
    assert {name for name, info in RULE_INFO.items() if info.by == "tool"} - {"tool_doubt"} <= found


def test_every_ingest_problem_has_a_title() -> None:
    named_in = re.compile(r'(?:\b(?:Problem|problem|_note(?:_fields)?|add_problem)\(\s*|"name": )"([a-z][a-z_-]+)"')
    sources = [
        path
        for room in ("hosts", "host_metrics", "ingestion", "execution", "external")
        for path in (PACKAGE / room).glob("*.py")
    ]
    found = {name for path in sources for name in named_in.findall(path.read_text())}
    assert {"gap", "changed-file", "unreadable-output", "not-executed", "damaged-record"} <= found
    assert not found - set(RULE_INFO), "add these to core/validity_rules.toml"
