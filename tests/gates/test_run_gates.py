"""Rules on a run: arms that answer differently, changed conditions, an A/A arm that differs."""

from __future__ import annotations

import numpy as np
from gatedata import CLEAN, named

from loadbook.design.study import Study
from loadbook.gates.run import check_run
from loadbook.records.manifest import TrialRecord

STUDY = Study.model_validate({
    "schema": 1, "name": "s", "question": "Which?", "baseline": "base", "blocks": 8,
    "roles": {"driver": {}, "web": {}}, "workload": {"tool": "wrk"},
    "treatments": {"base": {}, "x": {}, "again": {"check": "aa", "same_as": "base"}},
})  # fmt: skip


def make(blocks: int = 8, aa: float = 0.0, **by_treatment):
    """Records and measurement rows of a run; `by_treatment` changes an arm's records."""
    rng = np.random.default_rng(1)
    records, rows = [], []
    for block in range(1, blocks + 1):
        for name in ("base", "x", "again"):
            trial = f"t{len(records) + 1:04}"
            changes = {"trial": trial, "treatment": name, "block": block, "slot": len(records) + 1}
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


def test_a_sound_run_has_no_hits() -> None:
    assert check_run(STUDY, *make()) == []


def test_arms_that_send_other_bytes() -> None:
    other = {"response_before": {"status": 200, "bytes": 24, "sha256": "b"}}
    (hit,) = check_run(STUDY, *make(x=other))
    assert (hit.name, hit.level, hit.treatment, hit.trial) == ("arms_answer_differently", "invalid", "x", None)
    assert "24 bytes where the baseline sends 5" in hit.message


def test_arms_that_answer_with_another_status() -> None:
    other = {"response_before": {"status": 404, "bytes": 5, "sha256": "b"}}
    assert "status 404 where the baseline answers 200" in check_run(STUDY, *make(x=other))[0].message


def received(records, rows, **bytes_each: float):
    """The same run with requests, and bytes per response by treatment (238 where not given)."""
    more = [
        {"trial": r.trial, "treatment": r.treatment, "driver": "*", "statistic": "count", "metric": metric, "value": n}
        for r in records
        for metric, n in (("requests", 1000.0), ("bytes_read", 1000.0 * bytes_each.get(r.treatment, 238.0)))
    ]
    return records, rows + more


def test_other_bytes_under_load_than_the_page_asked_for_beside_it_are_a_doubt() -> None:
    assert check_run(STUDY, *received(*make(), x=239.0)) == []
    (hit,) = check_run(STUDY, *received(*make(), x=180.0))
    assert (hit.name, hit.level, hit.treatment, hit.trial) == ("arms_answer_differently", "doubt", "x", None)
    assert "180 bytes per response, the baseline 238" in hit.message


def test_other_content_of_the_same_size_is_a_doubt() -> None:
    other = {"response_before": {"status": 200, "bytes": 5, "sha256": "b"}}
    (hit,) = check_run(STUDY, *make(x=other))
    assert (hit.name, hit.level) == ("arms_answer_differently", "doubt")


def test_content_that_always_changes_says_nothing() -> None:
    records, rows = make()
    for k, record in enumerate(records):
        record.response_before.sha256 = str(k)
    assert check_run(STUDY, records, rows) == []


def test_a_reboot_and_a_new_version_are_doubts_on_the_odd_trials() -> None:
    records, rows = make()
    records[3].boot_ids = {"driver-1": "b1", "web-1": "b9"}
    records[5].services[0].version = "nginx 1.26"
    for k in range(24):
        if k != 5:
            records[k].services[0].version = "nginx 1.22"
    hits = named(check_run(STUDY, records, rows), "facts_differ")
    assert [(h.trial, h.host, h.level) for h in hits] == [("t0004", "web-1", "doubt"), ("t0006", "web-1", "doubt")]
    assert "web-1 was rebooted (b9, b1 in most trials)" in hits[0].message


def test_an_aa_arm_that_differs_is_invalid_for_the_run() -> None:
    (hit,) = check_run(STUDY, *make(aa=0.05))
    assert (hit.name, hit.level, hit.treatment, hit.trial) == ("aa_differs", "invalid", "again", None)
    assert "again: it differs from base by +5" in hit.message


def test_an_aa_arm_of_few_blocks_is_unchecked() -> None:
    (hit,) = check_run(STUDY, *make(blocks=4, aa=0.05))
    assert (hit.name, hit.level) == ("aa_differs", "unchecked")


def test_excluded_and_failed_trials_do_not_count() -> None:
    records, rows = make()
    for row in rows[:9]:
        row["value"] *= 3 if row["treatment"] == "again" else 1
    records[2].status = "tool_failed"
    assert check_run(STUDY, records, rows, excluded={"t0006", "t0009"}) == []


def test_an_empty_run_is_no_trouble() -> None:
    assert check_run(STUDY, [], []) == []
