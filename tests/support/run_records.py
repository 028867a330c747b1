"""Records of runs (run.json) for tests without a run folder."""

from __future__ import annotations

from typing import Any

from loadbook.store.run_record import RunRecord
from loadbook.study.model import Study
from loadbook.study.plan import Plan

HOSTS = {"driver": {"roles": ["driver"], "cpus": [0]}, "web": {"roles": ["web"], "cpus": [1]}}

STUDY = Study.model_validate({
    "schema": 1, "name": "s", "question": "Which is faster?", "baseline": "a", "roles": {"driver": {}, "web": {}},
    "workload": {"tool": "wrk"}, "treatments": {"a": {}, "b": {}},
})  # fmt: skip


def plan_of(study: Study = STUDY, **values: Any) -> Plan:
    """Return a plan without blocks, treatments and trials, except for the values given."""
    usual: dict[str, Any] = {"subset": "default", "seed": 1, "blocks": 0, "treatments": (), "trials": ()}
    return Plan(study, **(usual | values))


def make_run_record(**values: Any) -> RunRecord:
    """Return the record of a finished run with default values, except for those given."""
    usual = {
        "study": "s", "run": "20261120-101500", "subset": "default", "schema_version": 1, "started": 1.0, "ended": 2.0,
        "loadbook_version": "0.1.0", "git_revision": None, "git_dirty": None, "study_sha256": "0" * 64, "seed": 1,
        "blocks": 10, "hosts": HOSTS, "tool_versions": {}, "service_versions": {}, "lab": False, "resumed": 0,
    }  # fmt: skip
    return RunRecord.model_validate(usual | values)


def changed_record(record: RunRecord, **values: Any) -> RunRecord:
    """Return a record with the given values changed, validated as if read from a file."""
    return RunRecord.model_validate(record.to_json() | values)
