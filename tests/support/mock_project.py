"""A project folder with one simulated run, complete enough for every block of a report.

Its effects are known, and so is the expected text of a page. A recorded real run is in tests/support/recorded_run.py.
"""

from __future__ import annotations

import math
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadbook.core.metrics import get_metric
from loadbook.store import trial_record
from loadbook.store.paths import Layout
from loadbook.store.tables import to_arrow, write_arrow
from loadbook.store.trial_record import DriverRecord, TrialRecord
from loadbook.study.model import Study
from loadbook.study.plan import Plan, make_plan

REPO = Path(__file__).parents[2]
RUN = "20261120T101500"
STARTED = 1_795_169_700.0


@dataclass
class Arm:
    """One treatment of the simulated run: true effect, scatter (log standard deviation) and the server's response."""

    effect: float = 0.0
    set: dict[str, Any] = field(default_factory=dict)
    label: str | None = None
    check: str | None = None
    expect: str | None = None
    expect_effect: float | None = None
    scatter: float = 0.012
    errors: int = 0
    error_share: float = 0.0
    invalid: str | None = None


def usual_arms() -> dict[str, Arm]:
    """Return treatments with every verdict, an A/A arm and a positive control."""
    return {
        "baseline": Arm(label="baseline"),
        "aa": Arm(check="aa", label="A/A: baseline again"),
        "tcp-nopush": Arm(0.06, {"tcp_nopush": True}, "tcp_nopush on"),
        "access-log": Arm(-0.047, {"access_log": True}, "access log on", errors=14, error_share=0.1),
        "tcp-nodelay": Arm(0.011, {"tcp_nodelay": True}, "tcp_nodelay on", scatter=0.004),
        "use-epoll": Arm(0.001, {"use_epoll": True}, "use epoll", scatter=0.006),
        "multi-accept": Arm(0.012, {"multi_accept": True}, "multi_accept on", scatter=0.05),
        "gzip": Arm(0.0, {"gzip": True}, "gzip on", invalid="answers 24 bytes where the baseline answers 4"),
        "log-unbuffered": Arm(
            -0.10, {"access_log": True, "gzip": False}, "control: log unbuffered", "control", "worse", -0.10
        ),
    }


def make_study(arms: dict[str, Arm], name: str, question: str, blocks: int, **more: Any) -> Study:
    """Return a valid study with these treatments."""
    factors = {f: {"role": "web", "levels": [False, True]} for arm in arms.values() for f in arm.set}
    treatments = {
        key: {"label": a.label, "set": a.set, "check": a.check, "expect": a.expect, "expect_effect": a.expect_effect}
        for key, a in arms.items()
    }
    spec = {
        "schema": 1, "name": name, "question": question, "baseline": next(iter(arms)), "blocks": blocks, "seed": 11,
        "execution": "plain",
        "roles": {"driver": {}, "web": {"service": "nginx", "vars": dict.fromkeys(factors, False)}},
        "workload": {"tool": "wrk", "connections": 100, "duration_s": 4.0, "path": "/index.html", "expect_bytes": 4},
        "factors": factors, "treatments": treatments,
    } | more  # fmt: skip
    return Study.model_validate(spec)


PUBLISHED = {
    "source": "A tuning article, Qiita, 2015-07-19",
    "claims": [
        {"claim": "tcp_nopush helps most", "treatment": "tcp-nopush", "against": "baseline", "value": 23871.8,
         "against_value": 17687.9, "errors": 7754, "against_errors": 62488, "offered_per_s": 25000},
        {"claim": "everything on is best", "treatment": "multi-accept", "against": "baseline", "value": 24980.6,
         "against_value": 17687.9, "errors": 143, "against_errors": 62488, "offered_per_s": 25000},
    ],
}  # fmt: skip


def make_project(
    root: Path,
    arms: dict[str, Arm] | None = None,
    *,
    name: str = "nginx-directives",
    question: str = "Which nginx directive changes throughput?",
    blocks: int = 12,
    run: str = RUN,
    traces: bool = True,
    doubt: str | None = "the driver and the server share one machine: keep them on disjoint CPU masks",
    dice: int = 5,
    **more: Any,
) -> Layout:
    """Write studies/, the repository's notebooks/, data/raw and data/processed of one run below `root`."""
    arms = arms or usual_arms()
    study = make_study(
        arms, name, question, blocks, **({"published": PUBLISHED} if "tcp-nopush" in arms else {}) | more
    )
    plan = make_plan(study)
    layout = Layout(root)
    layout.studies.mkdir(parents=True, exist_ok=True)
    if not layout.notebooks.exists():
        shutil.copytree(REPO / "notebooks", layout.notebooks)
    _write_raw(layout, plan, run)
    _write_tables(layout, plan, arms, run, traces, doubt, dice)
    return layout


def _write_raw(layout: Layout, plan: Plan, run: str) -> None:
    paths, study = layout.run(plan.study.name, run), plan.study
    trial_record.write_json(paths.plan_json, plan.to_json())
    hosts = {"driver-1": {"roles": ["driver"], "cpus": [1]}, "web-1": {"roles": ["web"], "cpus": [0]}}
    trial_record.write_json(paths.run_json, {
        "study": study.name, "run": run, "subset": plan.subset, "schema_version": 1, "started": STARTED,
        "ended": STARTED + 5160, "loadbook_version": "0.1.0", "git_revision": "1a2b3c4d5e6f", "git_dirty": False,
        "study_sha256": "ab" * 32, "seed": plan.seed, "blocks": plan.blocks, "hosts": hosts,
        "tool_versions": {"driver-1": "wrk 4.1.0"}, "service_versions": {"web-1": "nginx 1.22.1"}, "lab": True,
        "resumed": 0,
    })  # fmt: skip
    for host in hosts:
        before = {
            "kernel": {"value": "6.1.0-31-amd64", "kind": "identity"},
            "cpu_model": {"value": "Some CPU <b>2.5 GHz</b>", "kind": "identity"},
            "memory_total_b": {"value": 4 * 2**30, "kind": "tolerance"},
            "net.core.somaxconn": {"value": 4096, "kind": "identity"},
            "boot_id": {"value": "b00t-1d", "kind": "identity"},
            "load_1min": {"value": 0.2, "kind": "info"},
        }
        trial_record.write_json(paths.facts / f"{host}-before.json", before)
        after = before | {"load_1min": {"value": 1.7, "kind": "info"}}
        trial_record.write_json(paths.facts / f"{host}-after.json", after)
    for planned in plan.trials[:3]:
        _publish(paths, study, planned, run)


def _publish(paths: Any, study: Study, planned: Any, run: str) -> None:
    staged = paths.raw / f".staged-{planned.trial}"
    staged.mkdir()
    (staged / "stdout-driver-1").write_text("Running 4s test\n")
    driver = DriverRecord(host="driver-1", argv=["wrk", "-c", "100"], rc=0, stdout="stdout-driver-1", stderr="none")
    record = TrialRecord(
        study=study.name, run=run, trial=planned.trial, treatment=planned.treatment, factors={}, block=planned.block,
        slot=planned.slot, attempt=1, status="ok", tool="wrk", workload={}, drivers=[driver],
    )  # fmt: skip
    trial_record.seal_trial(staged, record)
    trial_record.publish_trial(staged, paths.trial(planned.trial))


def _write_tables(
    layout: Layout, plan: Plan, arms: dict[str, Arm], run: str, traces: bool, doubt: str | None, seed: int
) -> None:
    paths, dice = layout.run(plan.study.name, run), random.Random(seed)
    keys = {"study": plan.study.name, "run": run}
    trials, measurements, trace_rows, problems = [], [], [], []
    for planned in plan.trials:
        arm = arms[planned.treatment]
        crashed = planned.slot == 5
        invalid = arm.invalid or ("the driver crashed (signal 11)" if crashed else None)
        key = keys | {"trial": planned.trial}
        trials.append(key | _trial_row(plan, planned, invalid, crashed))
        if invalid:
            gate = "answers-differ" if arm.invalid else "tool-failed"
            problems.append(key | _problem(gate, "invalid", invalid))
        if not crashed:
            measurements += [key | row for row in _measure(arm, planned, dice)]
        if traces:
            trace_rows += [key | row for row in _traces(planned, dice)]
    if doubt:
        problems.append(keys | {"trial": None} | _problem("shared-cores", "doubt", doubt))
    factors = tuple(plan.study.factors)
    write_arrow(paths.table("trials"), to_arrow("trials", trials, factors))
    for table, rows in (("measurements", measurements), ("samples", []), ("traces", trace_rows)):
        write_arrow(paths.table(table), to_arrow(table, rows))
    write_arrow(paths.table("problems"), to_arrow("problems", problems))


def _problem(gate: str, level: str, message: str) -> dict[str, Any]:
    return {"host": "web-1", "file": None, "line": None, "name": gate, "level": level, "message": message}


def _trial_row(plan: Plan, planned: Any, invalid: str | None, crashed: bool) -> dict[str, Any]:
    levels = plan.study.levels_of(planned.treatment)
    return {
        "treatment": planned.treatment, "block": planned.block, "slot": planned.slot,
        "execution": "plain", "measures": "all",
        "status": "tool_failed" if crashed else "ok", "attempt": 1, "started": STARTED + 45.0 * planned.slot,
        "duration_s": 7.0, "tool": "wrk", "tool_version": "4.1.0", "load_model": "closed", "offered_per_s": None,
        "concurrency": 100, "drivers": 1, "valid": invalid is None, "gates": ["answers-differ"] if invalid else [],
        "reason": invalid, "response_status": 200, "response_bytes": 4, "response_sha256": "c" * 64,
        "config_live": True,
    } | {f"factor_{n}": str(v).lower() for n, v in levels.items()}  # fmt: skip


def _measure(arm: Arm, planned: Any, dice: random.Random) -> list[dict[str, Any]]:
    drift = 0.02 * math.sin(planned.block / 3)
    rate = 41_600 * (1 + arm.effect) * math.exp(drift + dice.gauss(0, arm.scatter))
    failed = arm.errors if dice.random() < arm.error_share or (arm.errors and planned.block == 7) else 0
    p50 = 0.1 / 41_600 * 1000 * 41_600 / rate
    values = [
        ("ok_per_s", "value", rate), ("requests_per_s", "value", rate), ("duration", "value", 4.0),
        ("ok", "count", round(rate * 4) - failed), ("requests", "count", round(rate * 4)),
        ("errors", "count", failed), ("errors_timeout", "count", failed), ("bytes_read", "count", rate * 4 * 240),
        ("latency", "mean", p50 * 1.1), ("latency", "p50", p50), ("latency", "p75", p50 * 1.2),
        ("latency", "p90", p50 * 1.5 * math.exp(dice.gauss(0, 0.03))),
        ("latency", "p99", p50 * 4 * math.exp(dice.gauss(0, 0.10))),
    ]  # fmt: skip
    return [
        {"driver": "*", "metric": m, "statistic": s, "value": float(v), "unit": get_metric(m).unit, "text": None}
        for m, s, v in values
    ]


def _traces(planned: Any, dice: random.Random) -> list[dict[str, Any]]:
    rows = []
    for k in range(-2, 10):
        busy = 0.97 if 0 <= k < 8 else 0.05
        for host, role, cpu, share in (("web-1", "web", "cpu0", busy), ("driver-1", "driver", "cpu1", busy * 0.6)):
            key = {"host": host, "role": role, "t_s": k * 0.5, "source": "sampler"}
            used = min(1.0, max(0.0, share + dice.gauss(0, 0.01)))
            rows.append(key | {"metric": "cpu_busy", "item": cpu, "value": used, "unit": "1"})
            rows.append(key | {"metric": "cpu_busy", "item": "all", "value": used / 2, "unit": "1"})
            rows.append(key | {"metric": "memory_used", "item": "all", "value": 9e8, "unit": "B"})
    return rows
