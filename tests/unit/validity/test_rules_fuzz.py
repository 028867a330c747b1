"""Whatever tools print and hosts tell, the rules say something readable of it, and stricter thresholds never less."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from loadbook.core.metrics import METRICS
from loadbook.core.validity_rules import RULE_INFO
from loadbook.study.limits import ValidityLimits
from loadbook.validity.rules import check_trial
from valid_trial import CLEAN, TOTALS, record, rows, traces

VALUES = st.one_of(st.sampled_from([0.0, 1.0, 5.0, 1e5]), st.floats(0, 1e15), st.floats(-1e3, 0))
STATISTICS = st.sampled_from(["count", "value", "mean", "p50", "p99", "p99.9", "max"])
MEASURED = st.dictionaries(st.tuples(st.sampled_from(sorted(METRICS)), STATISTICS), VALUES | st.none(), max_size=12)
WORKLOADS = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["open", "closed"]),
        "connections": st.integers(1, 10**6),
        "threads": st.integers(1, 64),
        "rate_per_s": st.none() | st.floats(0.1, 1e6),
        "think_time_s": st.floats(0, 10),
        "expect_status": st.integers(100, 599),
        "expect_bytes": st.none() | st.integers(0, 10**9),
    },
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "tool": st.sampled_from(["wrk", "wrk2", "ab", "httperf", "h2load", "weighttp", "jmeter", "toy"]),
        "window": st.sampled_from([None, (1000.0, 1004.0), (1000.0, 1000.0), (1000.0, 90_000.0)]),
        "services": st.sampled_from([[], CLEAN["services"]]),
        "monitors": st.sampled_from([[], CLEAN["monitors"][:1]]),
        "boot_ids": st.just({}),
        "clocks": st.just({}),
        "reset": st.just({}),
        "response_before": st.none(),
        "response_after": st.none(),
    },
)
DOUBTS = st.lists(st.tuples(st.sampled_from([*RULE_INFO, "never_heard"]), st.text(min_size=1, max_size=20)), max_size=3)


@settings(max_examples=examples(300), deadline=None)
@given(MEASURED, WORKLOADS, CHANGES, DOUBTS, st.booleans())
def test_every_hit_names_a_known_rule_with_a_remedy(
    measured: dict[Any, Any], workload: dict[str, Any], changes: dict[str, Any], doubts: list[Any], traced: bool
) -> None:
    trial = record(workload=workload, **changes)
    for hit in check_trial(trial, rows(measured), traces() if traced else [], doubts, ValidityLimits()):
        assert hit.name in RULE_INFO and hit.trial == trial.trial
        if hit.level == "unchecked":
            assert hit.message.startswith("not checked: ")
        elif RULE_INFO[hit.name].by != "file":
            assert hit.message.endswith(f"; {RULE_INFO[hit.name].remedy}.")


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 10**5), st.floats(0, 1), st.floats(0, 1))
def test_stricter_limit_of_errors_never_makes_a_hit_milder(errors: int, one: float, other: float) -> None:
    weight = {"note": 1, "doubt": 2, "invalid": 3}
    measured = rows({("errors_status", "count"): errors, ("ok", "count"): TOTALS["requests", "count"] - errors + 1})

    def worst(limit: float) -> int:
        hits = check_trial(record(), measured, traces(), [], ValidityLimits(max_error_share=limit))
        return max((weight[hit.level] for hit in hits if hit.name == "error_responses"), default=0)

    assert worst(min(one, other)) >= worst(max(one, other))
