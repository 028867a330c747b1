"""Rules on a run: arms that answer differently, changed conditions, an A/A arm that differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loadbook.store.trial_record import FileRecord, TrialRecord
from loadbook.study.model import Study
from loadbook.validity.rules import check_run
from valid_trial import CLEAN, named

STUDY = Study.model_validate({
    "schema": 1, "name": "s", "question": "Which?", "baseline": "base", "blocks": 8,
    "roles": {"driver": {}, "web": {}}, "workload": {"tool": "wrk"},
    "treatments": {"base": {}, "x": {}, "again": {"check": "aa", "same_as": "base"}},
})  # fmt: skip


def make(blocks: int = 8, aa: float = 0.0, **by_treatment):
    """Records and measurement rows of a run; `by_treatment` changes an arm's records.

    Arm `x` has a configuration of its own.
    """
    changed = [CLEAN["services"][0] | {"config_sha256": "1" * 64}]
    rng = np.random.default_rng(1)
    records, rows = [], []
    for block in range(1, blocks + 1):
        for name in ("base", "x", "again"):
            trial = f"t{len(records) + 1:04}"
            changes: dict[str, Any] = {"trial": trial, "treatment": name, "block": block, "slot": len(records) + 1}
            changes |= {"services": changed} if name == "x" else {}
            records.append(TrialRecord.model_validate(CLEAN | changes | by_treatment.get(name, {})))
            value = 40_000 * np.exp((aa if name == "again" else 0.0) + rng.normal(0, 0.004))
            rows.append(
                {
                    "trial": trial,
                    "treatment": name,
                    "driver": "*",
                    "metric": "ok_per_s",
                    "statistic": "value",
                    "value": value,
                }
            )
    return records, rows


def test_run_without_problems_has_no_hits() -> None:
    assert check_run(STUDY, *make()) == []


def test_arms_with_different_response_sizes_are_invalid() -> None:
    other = {"response_before": {"status": 200, "bytes": 24, "sha256": "b"}}
    (hit,) = check_run(STUDY, *make(x=other))
    assert (hit.name, hit.level, hit.treatment, hit.trial) == ("arms_answer_differently", "invalid", "x", None)
    assert "24 bytes where the baseline sends 5" in hit.message


def test_arms_with_different_http_status_are_invalid() -> None:
    other = {"response_before": {"status": 404, "bytes": 5, "sha256": "b"}}
    assert "status 404 where the baseline answers 200" in check_run(STUDY, *make(x=other))[0].message


COMPRESSED = Study.model_validate({
    "schema": 1, "name": "s", "question": "Which?", "baseline": "base", "blocks": 8,
    "roles": {"driver": {}, "web": {"service": "nginx", "vars": {"gzip": "off"}}}, "workload": {"tool": "wrk"},
    "factors": {"gzip": {"levels": ["off", "on"]}},
    "treatments": {"base": {}, "x": {"set": {"gzip": "on"}}, "again": {"check": "aa", "same_as": "base"}},
})  # fmt: skip
GZIP = {("nginx", "gzip"): ("response_bytes",)}


def test_treatment_that_should_change_the_response_size_but_does_not_is_a_doubt() -> None:
    sent = received(*make(), base=20_240.995, x=20_240.996, again=20_240.995)
    (hit,) = check_run(COMPRESSED, *sent, changes=GZIP)
    assert (hit.name, hit.level, hit.treatment, hit.trial) == ("treatment_not_exercised", "doubt", "x", None)
    assert "gzip = on should change the bytes of a response: 20,241.0 came" in hit.message
    assert check_run(COMPRESSED, *sent) == []


def test_treatment_that_changes_the_response_size_as_expected_has_no_hit() -> None:
    sent = received(*make(), base=20_240.0, x=900.0, again=20_240.0)
    assert named(check_run(COMPRESSED, *sent, changes=GZIP), "treatment_not_exercised") == []


NOPUSH = Study.model_validate(
    STUDY.model_dump(by_alias=True)
    | {
        "roles": {"driver": {}, "web": {"service": "nginx", "vars": {"tcp_nopush": "off"}}},
        "factors": {"tcp_nopush": {"levels": ["off", "on"]}},
        "treatments": {"base": {}, "x": {"set": {"tcp_nopush": "on"}}, "again": {"check": "aa", "same_as": "base"}},
    }
)
SAME_CONFIGURATION = {"services": CLEAN["services"]}


def test_treatment_with_load_and_configuration_of_the_baseline_is_a_doubt_for_every_service() -> None:
    (hit,) = check_run(NOPUSH, *make(x=SAME_CONFIGURATION))
    assert (hit.name, hit.level, hit.treatment) == ("treatment_not_exercised", "doubt", "x")
    assert "x: tcp_nopush = on: the load and the configuration of every service are those of the base" in hit.message
    assert named(check_run(NOPUSH, *make()), "treatment_not_exercised") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"treatments": {"base": {}, "x": {"workload": {"connections": 60}}, "again": {"same_as": "base"}}},
        {
            "factors": {"cpus": {"of": "cpus", "levels": ["0", "1"]}},
            "roles": {"driver": {}, "web": {"service": "nginx", "cpus": "0"}},
            "treatments": {"base": {}, "x": {"set": {"cpus": "1"}}, "again": {"same_as": "base"}},
        },
        {"treatments": {"base": {}, "x": {"same_as": "base"}, "again": {"same_as": "base"}}},
    ],
)
def test_treatment_of_another_load_or_other_cpus_and_a_repetition_change_something(changes: dict[str, Any]) -> None:
    study = Study.model_validate(NOPUSH.model_dump(by_alias=True) | {"factors": {}} | changes)
    assert named(check_run(study, *make(x=SAME_CONFIGURATION)), "treatment_not_exercised") == []


def test_treatment_whose_answers_differ_changed_something() -> None:
    other = {"response_before": {"status": 200, "bytes": 24, "sha256": "b"}} | SAME_CONFIGURATION
    assert named(check_run(NOPUSH, *make(x=other)), "treatment_not_exercised") == []


def test_treatment_whose_setting_lacks_what_it_needs_is_a_doubt() -> None:
    needs = "web.tcp_nopush = on has no effect: it needs sendfile = on"
    (hit,) = check_run(NOPUSH, *make(), ineffective={needs: ["x"]})
    assert (hit.name, hit.level, hit.treatment) == ("treatment_not_exercised", "doubt", "x")
    assert f"x: {needs}" in hit.message


def test_treatment_effect_on_the_response_size_is_unchecked_if_bytes_were_not_counted() -> None:
    (hit,) = check_run(COMPRESSED, *make(), changes=GZIP)
    assert (hit.name, hit.level) == ("treatment_not_exercised", "unchecked")


SIZED = Study.model_validate({
    "schema": 1, "name": "s", "question": "Which?", "baseline": "base", "blocks": 8,
    "roles": {"driver": {}, "web": {"service": "web"}}, "workload": {"tool": "wrk"},
    "factors": {"page_bytes": {"levels": [5, 2048]}, "cache": {"levels": ["off", "on"]}},
    "treatments": {"base": {}, "x": {"set": {"page_bytes": 2048}},
                   "again": {"set": {"page_bytes": 2048, "cache": "on"}}},
})  # fmt: skip
LARGE = {"response_before": {"status": 200, "bytes": 2048, "sha256": "b"}}


def test_arms_are_compared_only_with_arms_of_the_same_declared_page_size() -> None:
    """Each is asked for its own size (`wrong_response`, from the workload that the factor makes)."""
    assert check_run(SIZED, *received(*make(x=LARGE, again=LARGE), x=2300.0, again=2300.0)) == []
    assert SIZED.workload_of("x").expect_bytes == 2048
    assert STUDY.workload_of("x").expect_bytes is None
    (hit,) = check_run(SIZED, *make(x=LARGE))
    assert (hit.treatment, hit.level) == ("again", "invalid")
    assert "5 bytes where x sends 2048" in hit.message
    (hit,) = check_run(SIZED, *received(*make(x=LARGE, again=LARGE), x=2300.0, again=1150.0))
    assert "1,150 bytes per response, x 2,300" in hit.message


def received(records, rows, **bytes_each: float):
    """The same run with requests, and bytes per response by treatment (238 where not given)."""
    more = [
        {"trial": r.trial, "treatment": r.treatment, "driver": "*", "statistic": "count", "metric": metric, "value": n}
        for r in records
        for metric, n in (("requests", 1000.0), ("bytes_read", 1000.0 * bytes_each.get(r.treatment, 238.0)))
    ]
    return records, rows + more


def test_different_bytes_per_response_under_load_are_a_doubt() -> None:
    assert check_run(STUDY, *received(*make(), x=239.0)) == []
    (hit,) = check_run(STUDY, *received(*make(), x=180.0))
    assert (hit.name, hit.level, hit.treatment, hit.trial) == ("arms_answer_differently", "doubt", "x", None)
    assert "180 bytes per response, the baseline 238" in hit.message


def test_different_content_of_the_same_size_is_a_doubt() -> None:
    other = {"response_before": {"status": 200, "bytes": 5, "sha256": "b"}}
    (hit,) = check_run(STUDY, *make(x=other))
    assert (hit.name, hit.level) == ("arms_answer_differently", "doubt")


def test_different_content_of_a_page_that_was_fetched_once_is_not_judged() -> None:
    records, rows = make()
    own = [record for record in records if record.treatment == "x"]
    own[0].response_before.sha256 = "b"
    for record in own[1:]:
        record.response_before = None
    assert check_run(STUDY, records, rows) == []


def test_content_that_changes_with_every_response_is_not_judged() -> None:
    records, rows = make()
    for k, record in enumerate(records):
        record.response_before.sha256 = str(k)
    assert check_run(STUDY, records, rows) == []


def test_reboot_and_new_version_are_doubts_on_the_affected_trials() -> None:
    records, rows = make()
    records[3].boot_ids = {"driver-1": "b1", "web-1": "b9"}
    records[5].services[0].version = "nginx 1.26"
    for k in range(24):
        if k != 5:
            records[k].services[0].version = "nginx 1.22"
    hits = named(check_run(STUDY, records, rows), "facts_differ")
    assert [(h.trial, h.host, h.level) for h in hits] == [("t0004", "web-1", "doubt"), ("t0006", "web-1", "doubt")]
    assert "web-1 was rebooted (b9, b1 in most trials)" in hits[0].message


def test_differing_aa_arm_is_invalid_for_the_run() -> None:
    (hit,) = check_run(STUDY, *make(aa=0.05))
    assert (hit.name, hit.level, hit.treatment, hit.trial) == ("aa_differs", "invalid", "again", None)
    assert "again: it differs from base by +5" in hit.message


def test_aa_arm_with_few_blocks_is_unchecked() -> None:
    (hit,) = check_run(STUDY, *make(blocks=4, aa=0.05))
    assert (hit.name, hit.level) == ("aa_differs", "unchecked")


def test_rules_on_runs_ignore_excluded_and_failed_trials() -> None:
    records, rows = make()
    for row in rows[:9]:
        row["value"] *= 3 if row["treatment"] == "again" else 1
    records[2].status = "tool_failed"
    assert check_run(STUDY, records, rows, excluded={"t0006", "t0009"}) == []


def test_empty_run_has_no_hits() -> None:
    assert check_run(STUDY, [], []) == []


def fact(value: object, kind: str = "identity") -> dict[str, object]:
    return {"value": value, "kind": kind}


def run_with_facts(before: dict, after: dict | None, study: Study = STUDY):
    facts = {"web-1-before": before} | ({"web-1-after": after} if after is not None else {})
    return named(check_run(study, *make(), facts=facts), "facts_differ")


def test_kernel_setting_that_changed_during_the_run_is_a_doubt() -> None:
    (hit,) = run_with_facts({"net.core.somaxconn": fact(4096)}, {"net.core.somaxconn": fact(128)})
    assert (hit.level, hit.trial, hit.host) == ("doubt", None, "web-1")
    assert "net.core.somaxconn of web-1 was 4096 before the run and 128 after it" in hit.message


def test_facts_may_change_within_tolerance_or_if_informational() -> None:
    before = {"memory_total_b": fact(1000, "tolerance"), "load_1min": fact(0.1, "info"), "boot_id": fact("a")}
    after = {"memory_total_b": fact(1015, "tolerance"), "load_1min": fact(9.0, "info"), "boot_id": fact("b")}
    assert run_with_facts(before, after) == []
    assert len(run_with_facts(before, after | {"memory_total_b": fact(1030, "tolerance")})) == 1


def test_facts_that_a_factor_sets_may_change_and_missing_facts_are_unchecked() -> None:
    factors = {"factors": {"backlog": {"var": "somaxconn", "levels": [128, 4096]}}}
    declared = Study.model_validate(STUDY.model_dump(by_alias=True) | factors)
    before, after = {"net.core.somaxconn": fact(4096)}, {"net.core.somaxconn": fact(128)}
    assert run_with_facts(before, after, declared) == []
    (hit,) = run_with_facts(before, None)
    assert (hit.level, hit.host) == ("unchecked", "web-1")


def test_trials_with_a_different_load_configuration_or_server_are_doubts() -> None:
    records, rows = make()
    records[3].workload = records[3].workload | {"connections": 51}
    records[6].services[0].config_sha256 = "f" * 64
    records[9].monitors[1].cpus = [0, 1]
    for record in records:
        record.response_before.server = "Apache" if record.trial == "t0013" else "nginx"
    hits = named(check_run(STUDY, records, rows), "facts_differ")
    assert {hit.level for hit in hits} == {"doubt"}
    assert any("was given another load (connections 51, connections 50 in most trials)" in hit.message for hit in hits)
    assert {(hit.trial, hit.message.partition(" (")[0].partition(" ")[2]) for hit in hits} == {
        ("t0004", "was given another load"),
        ("t0007", "ran another configuration of the treatment"),
        ("t0010", "had another CPU mask"),
        ("t0013", "was answered by another server"),
    }


def test_load_recorded_by_an_earlier_version_without_request_times_is_the_same_load() -> None:
    records, rows = make()
    for record in records[12:]:  # as if the run had been resumed
        record.workload = record.workload | {"request_times": False, "max_connections": None}
    assert named(check_run(STUDY, records, rows), "facts_differ") == []


def test_arms_that_differ_in_tool_load_and_configuration_have_no_doubts() -> None:
    records, rows = make(x={"tool": "ab", "tool_version": "2.3", "workload": {"connections": 10}})
    for record in records:
        record.services[0].config_sha256 = record.treatment.ljust(64, "0")
    assert check_run(STUDY, records, rows) == []


def test_trial_with_different_bytes_per_response_than_its_treatment_is_a_doubt() -> None:
    records, rows = received(*make())
    for row in rows:
        if row["trial"] == "t0005" and row["metric"] == "bytes_read":
            row["value"] *= 1.5
    (hit,) = check_run(STUDY, records, rows)
    assert (hit.name, hit.level, hit.trial) == ("bytes_per_response", "doubt", "t0005")
    assert "357 bytes came per response, 238 in most trials of x" in hit.message


def test_bytes_per_response_of_different_tools_are_not_compared() -> None:
    records, rows = received(*make(x={"tool": "ab", "tool_version": "2.3"}), x=180.0)
    assert check_run(STUDY, records, rows) == []


def test_host_state_above_its_level_at_the_start_of_the_block_is_a_doubt() -> None:
    records, rows = make()
    for record in records:
        record.reset["web-1"] |= {"conntrack": 100.0, "load1": 1.0}
    records[4].reset["web-1"] |= {"conntrack": 60_000.0, "load1": 4.0}
    (hit,) = check_run(STUDY, records, rows)
    assert (hit.name, hit.level, hit.trial, hit.host) == ("not_at_rest", "doubt", "t0005", "web-1")
    assert "60,000 conntrack entries before the trial, 100 at the start of block 2" in hit.message
    records[4].reset["web-1"]["load1"] = 6.0
    assert len(check_run(STUDY, records, rows)) == 2, "two CPUs, two of load on each"
    records[3].reset["web-1"] |= {"conntrack": 60_000.0, "load1": 6.0}
    assert check_run(STUDY, records, rows) == [], "the block began so"


def test_load_of_hosts_on_the_same_cpus_is_judged_against_each_cpu_once() -> None:
    records, rows = make()
    for record in records:
        record.reset["web-1"] |= {"load1": 1.0}
        for monitor in record.monitors:
            monitor.cpus = [0, 1]
    records[4].reset["web-1"]["load1"] = 6.0
    (hit,) = check_run(STUDY, records, rows)
    assert (hit.name, hit.trial, hit.host) == ("not_at_rest", "t0005", "web-1")


def test_equal_outputs_of_failed_trials_are_no_copies() -> None:
    records, rows = make()
    same = FileRecord(size=7, sha256="a" * 64)
    for record in records[3:5]:
        record.files = {"o": same}
    (hit,) = named(check_run(STUDY, records, rows), "same_output")
    assert (hit.level, hit.trial) == ("doubt", "t0005")
    for record in records[3:5]:
        record.status = "tool_failed"
    assert named(check_run(STUDY, records, rows), "same_output") == []


def test_warnings_in_logs_are_one_doubt_with_each_line_once_and_its_treatments():
    refused = "[alert] setrlimit(RLIMIT_NOFILE, 100000) failed (1: Operation not permitted)"
    services = [CLEAN["services"][0] | {"warnings": [refused], "config_sha256": "1" * 64}]
    base = [CLEAN["services"][0] | {"warnings": ["[warn] another"]}]
    (hit,) = named(
        check_run(STUDY, *make(x={"services": services}, base={"services": base}, again={"services": base})),
        "service_warnings",
    )
    assert (hit.level, hit.trial) == ("doubt", None)
    assert hit.message.count("setrlimit") == 1 and f"“{refused}” in x;" in hit.message
    assert "“[warn] another” in base, again" in hit.message


def test_accept_queue_that_the_kernel_makes_shorter_is_said():
    services = [CLEAN["services"][0] | {"backlog": 65_535, "config_sha256": "1" * 64}]
    records, rows = make(x={"services": services})
    facts = {"web-1-before": {"net.core.somaxconn": {"value": 4096, "kind": "identity"}}}
    (hit,) = named(check_run(STUDY, records, rows, facts=facts), "service_warnings")
    assert "web: nginx has an accept queue of 4,096 (net.core.somaxconn), not of 65,535, in x: " in hit.message
    facts["web-1-before"]["net.core.somaxconn"]["value"] = 65_535
    assert named(check_run(STUDY, records, rows, facts=facts), "service_warnings") == []


def web(count: int, automatic: bool = True, **changes: Any) -> dict[str, Any]:
    """The changes of an arm's records whose web server has so many workers, on one CPU."""
    workers = {"count": count, "setting": "worker_processes", "automatic": automatic}
    return {"services": [CLEAN["services"][0] | {"config_sha256": "1" * 64, "cpus": [0], "workers": workers} | changes]}


def more_workers(study: Study = STUDY, **by_treatment):
    return named(check_run(study, *make(**by_treatment)), "more_workers_than_cpus")


def test_automatic_workers_above_the_cpus_given_are_one_doubt_with_their_treatments():
    (hit,) = more_workers(base=web(2), again=web(2), x=web(8, cpus=[0, 1]))
    assert (hit.level, hit.trial, hit.treatment) == ("doubt", None, None)
    assert hit.message.startswith(
        "web: nginx has 2 workers on 1 CPU in base, again (worker_processes = 1 would fit); "
        "web: nginx has 8 workers on 2 CPUs in x (worker_processes = 2 would fit): "
    )


@pytest.mark.parametrize(
    "services",
    [web(1), web(2, automatic=False), web(2, cpus=[]), web(2, workers=None)],
    ids=["one", "chosen", "not-pinned", "not-recorded"],
)
def test_workers_are_not_doubted_if_they_fit_or_the_study_chose_them_or_no_cpus_were_given(services):
    assert more_workers(x=services) == []


def test_automatic_workers_are_compared_with_a_quota_of_cpu_time():
    roles = {"driver": {}, "web": {"service": "nginx", "cpu_quota": 1.5}}
    study = Study.model_validate(STUDY.model_dump(by_alias=True) | {"roles": roles})
    (hit,) = more_workers(study, x=web(3, cpus=[0, 1, 2, 3]), base=web(2, cpus=[]))
    assert hit.message.startswith("web: nginx has 3 workers on 1.5 CPUs in x (worker_processes = 2 would fit): ")


def test_automatic_workers_are_compared_with_the_quota_of_their_host():
    records, rows = make(x=web(3, cpus=[0, 1, 2, 3]))
    facts = {"web-1-before": {"cpu_quota": {"value": 1.5, "kind": "identity"}}}
    (hit,) = named(check_run(STUDY, records, rows, facts=facts), "more_workers_than_cpus")
    assert hit.message.startswith("web: nginx has 3 workers on 1.5 CPUs in x (worker_processes = 2 would fit): ")


def test_run_recorded_without_warnings_has_no_doubt_of_them():
    records, rows = make()
    assert "warnings" not in CLEAN["services"][0]
    assert named(check_run(STUDY, records, rows), "service_warnings") == []
