"""The one model of load: what goes together, and how long it takes."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from loadbook.study.model import Study
from loadbook.study.reader import smoke_variant
from loadbook.study.workload import Workload, spinning_reason


@pytest.mark.parametrize(
    ("requested", "says"),
    [
        ({"model": "open"}, "needs rate_per_s"),
        ({"rate_per_s": 5.0}, "goes with model = 'open'"),
        ({"model": "open", "rate_per_s": 5.0, "think_time_s": 1.0}, "think_time_s goes with model = 'closed'"),
        ({"connections": 20, "requests": 19}, "19 requests leave some of 20 connections without any"),
        ({"requests": 0}, "greater than 0"),
        ({"think_time_s": -1.0}, "greater than or equal to 0"),
        ({"scheme": "ftp"}, "'http' or 'https'"),
    ],
)
def test_contradictory_workload_is_refused(requested: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Workload.model_validate({"tool": "wrk"} | requested)


def test_workload_with_a_number_of_requests_has_a_longer_time_limit() -> None:
    timed = Workload(tool="ab", duration_s=10, timeout_s=2)
    assert timed.hang_limit_s == 12
    assert timed.model_copy(update={"requests": 1000}).hang_limit_s == 32


def test_shortened_workload_has_at_least_one_request_per_connection() -> None:
    load = Workload(tool="ab", duration_s=10, requests=20_000, connections=50)
    short = load.with_duration(1.0, 0.3)
    assert (short.duration_s, short.warmup_s, short.requests) == (1.0, 0.3, 2000)
    assert load.with_duration(0.001, 0).requests == 50
    assert Workload(tool="wrk", warmup_s=0).with_duration(1.0, 0.3).warmup_s == 0
    assert Workload(tool="ab").with_duration(1.0, 0).requests is None


def test_smoke_variant_shortens_treatment_workloads() -> None:
    study = Study.model_validate(
        {
            "name": "loads",
            "question": "How far do they agree?",
            "baseline": "one",
            "roles": {"driver": {}, "web": {"external": "192.0.2.1:80"}},
            "workload": {"tool": "wrk", "duration_s": 4, "connections": 20},
            "treatments": {"one": {}, "two": {"workload": {"tool": "ab", "requests": 8000, "warmup_s": 3.0}}},
        }
    )
    short = smoke_variant(study)
    assert short.treatments["one"].workload == {}
    assert short.treatments["two"].workload == {"tool": "ab", "requests": 2000, "warmup_s": 0.3}
    assert short.workload_of("two").duration_s == 1.0


def test_smoke_variant_has_a_request_for_each_connection_of_its_treatments() -> None:
    study = Study.model_validate(
        {
            "name": "loads",
            "question": "How far do they agree?",
            "baseline": "one",
            "roles": {"driver": {}, "web": {"external": "192.0.2.1:80"}},
            "workload": {"tool": "ab", "duration_s": 4, "connections": 1, "requests": 100},
            "treatments": {"one": {}, "two": {"workload": {"connections": 50}}},
        }
    )
    short = smoke_variant(study)
    assert short.workload_of("one").requests == short.workload_of("two").requests == 50


@pytest.mark.parametrize(
    ("tool", "scheme", "keepalive", "spins"),
    [
        ("httperf", "http", True, True),
        ("wrk", "https", False, True),
        ("wrk2", "https", False, True),
        ("wrk", "https", True, False),
        ("wrk", "http", False, False),
        ("h2load", "https", False, False),
    ],
)
def test_some_generators_fill_their_cpu_whatever_the_load(tool: str, scheme: str, keepalive: bool, spins: bool) -> None:
    assert bool(spinning_reason(tool, scheme, keepalive=keepalive)) == spins
