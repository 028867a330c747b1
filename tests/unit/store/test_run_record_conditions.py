"""What two runs do not share, as their records say it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from loadbook.store.run_record import (
    ConditionChange,
    RunConditions,
    condition_changes,
    fact_differences,
    treatment_contrast,
)
from loadbook.store.tables import read_run_conditions
from recorded_run import FIXTURE
from run_records import changed_record


@pytest.fixture(scope="module")
def recorded() -> RunConditions:
    from loadbook.store.paths import RunPaths

    raw = next(FIXTURE.iterdir())
    return read_run_conditions(RunPaths(raw, raw))


def with_run_record(record: RunConditions, **values: Any) -> RunConditions:
    return replace(copy.deepcopy(record), run_record=changed_record(record.run_record, **values))


def with_fact(record: RunConditions, name: str, value: Any, host: str = "web") -> RunConditions:
    other = copy.deepcopy(record)
    other.facts[f"{host}-before"][name]["value"] = value
    return other


def test_run_compared_with_itself_has_no_condition_changes(recorded: RunConditions) -> None:
    assert condition_changes(recorded, recorded) == []


def test_condition_changes_name_hosts_by_role(recorded: RunConditions) -> None:
    newer = with_run_record(recorded, service_versions={"web": "nginx 1.24.0"})
    for host in ("web", "driver"):
        newer = with_fact(newer, "kernel", "6.20", host)
    newer = with_fact(newer, "net.core.somaxconn", 8192)
    old = recorded.facts["web-before"]["kernel"]["value"]
    assert condition_changes(recorded, newer) == [
        ConditionChange("version", "nginx", "1.22.1", "1.24.0", ("web",)),
        ConditionChange("fact", "kernel", old, "6.20", ("driver", "web")),
        ConditionChange("fact", "net.core.somaxconn", 4096, 8192, ("web",)),
    ]


def test_reboot_is_reported_and_does_not_prevent_a_comparison_of_rates(recorded: RunConditions) -> None:
    (changes,) = condition_changes(recorded, with_fact(recorded, "boot_id", "another"))
    assert (changes.name, changes.prevents_comparison) == ("boot_id", False)


def test_memory_size_within_tolerance_and_load_average_are_no_change(recorded: RunConditions) -> None:
    total = recorded.facts["web-before"]["memory_total_b"]["value"]
    newer = with_fact(with_fact(recorded, "memory_total_b", round(total * 1.01)), "load_1min", 9.0)
    assert condition_changes(recorded, newer) == []
    assert condition_changes(recorded, with_fact(recorded, "memory_total_b", total * 2))


def test_fact_unknown_to_an_older_version_is_no_change_but_an_unreadable_value_is(recorded: RunConditions) -> None:
    older = copy.deepcopy(recorded)
    del older.facts["web-before"]["net.core.busy_poll"]
    assert condition_changes(older, recorded) == []
    older.facts["web-before"]["kernel"]["value"] = None
    assert [(c.name, c.before) for c in condition_changes(older, recorded)] == [("kernel", None)]


def test_facts_recorded_in_only_one_run_are_one_change_not_many(recorded: RunConditions) -> None:
    older = replace(recorded, facts={})
    assert [(c.name, c.before, c.host_roles) for c in condition_changes(older, recorded)] == [
        ("facts of the host", None, ("driver", "web"))
    ]


def test_different_hosts_are_compared_by_role(recorded: RunConditions) -> None:
    hosts = {"load9": recorded.run_record.hosts["driver"], "web9": recorded.run_record.hosts["web"]}
    newer = with_run_record(
        recorded, hosts=hosts, tool_versions={"load9": "wrk 4.2.0"}, service_versions={"web9": "nginx 1.22.1"}
    )
    newer = replace(newer, facts={"web9-before": recorded.facts["web-before"], "load9-before": {}})
    changes = {(c.name, c.before, c.after, c.host_roles) for c in condition_changes(recorded, newer)}
    assert changes == {
        ("host", "driver", "load9", ("driver",)),
        ("host", "web", "web9", ("web",)),
        ("wrk", "4.1.0", "4.2.0", ("driver",)),
        ("facts of the host", "recorded", None, ("driver",)),
    }


def test_additional_host_is_a_change(recorded: RunConditions) -> None:
    hosts = recorded.run_record.hosts | {"web-2": {"roles": ["web"]}}
    assert condition_changes(recorded, with_run_record(recorded, hosts=hosts)) == [
        ConditionChange("host", "host", None, "web-2", ("web 2",))
    ]


def test_changed_load_prevents_a_comparison_of_rates_and_a_changed_margin_does_not(recorded: RunConditions) -> None:
    spec = recorded.study.model_dump(mode="json", by_alias=True)
    spec["margin"], spec["question"], spec["workload"]["connections"] = 0.05, "In other words?", 100
    newer = replace(recorded, study=type(recorded.study).model_validate_json(_json(spec)))
    changes = {c.name: (c.before, c.after, c.prevents_comparison) for c in condition_changes(recorded, newer)}
    assert changes == {"margin": (0.02, 0.05, False), "workload.connections": (50, 100, True)}


def test_changed_treatments_are_reported(recorded: RunConditions) -> None:
    spec = recorded.study.model_dump(mode="json", by_alias=True)
    spec["treatments"]["auto-nopush"]["set"] = {"tcp_nodelay": "off"}
    study = type(recorded.study).model_validate_json(_json(spec))
    plan = replace(recorded.plan, treatments=(*recorded.plan.treatments[:-1], "nodelay"))
    changes = condition_changes(recorded, replace(recorded, study=study, plan=plan))
    assert {(c.name, c.before, c.after) for c in changes} == {
        ("auto-nopush: tcp_nopush", "on", None),
        ("auto-nopush: tcp_nodelay", None, "off"),
        ("control-access-log", "there", None),
        ("nodelay", None, "there"),
    }
    assert treatment_contrast(study, "auto-nopush", "baseline-auto") == {"tcp_nodelay": ("unset", "off")}


def test_replay_lab_and_revision_are_conditions(recorded: RunConditions) -> None:
    newer = with_run_record(
        recorded, replay="20260101-000000", lab="netns", git_revision="0123456789abcdef", git_dirty=True
    )
    changes = {c.name: (c.before, c.after, c.prevents_comparison) for c in condition_changes(recorded, newer)}
    assert changes == {
        "replay of": (None, "20260101-000000", False),
        "lab": ("loopback", "netns", True),
        "loadbook": ("0.1.0", "0.1.0, revision 0123456789ab (with changes)", False),
    }


def test_conditions_with_hostile_texts_are_compared_safely(recorded: RunConditions) -> None:
    newer = copy.deepcopy(recorded)
    newer.facts["web-before"] |= {"kernel": {"value": ["6", {}], "kind": 7}, "arch": "x86", "cores": None}
    assert [c.name for c in condition_changes(recorded, newer)] == ["kernel"]


def _json(spec: dict[str, Any]) -> str:
    import json

    return json.dumps(spec)


@pytest.mark.parametrize(
    ("kind", "old", "new", "differs"),
    [
        ("tolerance", 1000, 1020, False), ("tolerance", 1000, 980, False), ("tolerance", 1000, 1021, True),
        ("tolerance", 1000, 979, True), ("tolerance", "x", "y", True), ("exact", 1000, 1001, True),
        ("exact", 1000, 1000, False), ("info", 1, 2, False), ("exact", None, 5, True), ("exact", 5, None, True),
    ],
)  # fmt: skip
def test_fact_differs_by_more_than_its_kind_allows(kind: str, old: Any, new: Any, differs: bool) -> None:
    before, after = ({} if value is None else {"fact": {"value": value, "kind": kind}} for value in (old, new))
    found = fact_differences(before, after)
    assert [tuple(one) for one in found] == ([("fact", old, new, kind)] if differs else [])


def test_second_host_of_a_role_is_compared_with_the_second_host_of_that_role(recorded: RunConditions) -> None:
    def with_webs(*cpus: int) -> RunConditions:
        webs = {f"web-{n}": {"roles": ["web"], "cpus": [cpu]} for n, cpu in enumerate(cpus, 1)}
        hosts = {"driver": {"roles": ["driver"], "cpus": [0]}, **dict(reversed(webs.items()))}
        return with_run_record(replace(recorded, facts={}), hosts=hosts)

    (change,) = condition_changes(with_webs(1, 2), with_webs(1, 3))
    assert change == ConditionChange("host", "CPUs in use", "2", "3", ("web 2",))
