"""Simulated data for the tests of figures and pages, never shown to a user.

`mock(case)` makes one complete simulated study; `CASES` are difficult cases. Intervals here
are t intervals on log ratios, which suffice for drawing; users get those of loadbook.stats.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats as sps

from loadbook.analyses.claims.checks import check_claims
from loadbook.analyses.claims.compute import ClaimResult
from loadbook.core.metrics import get_metric
from loadbook.stats.results import (
    VERDICT_ORDER,
    Analysis,
    AnalysisRow,
    CheckState,
    Comparison,
    ErrorSummary,
    Forecast,
    Verdict,
    VerdictKind,
)
from loadbook.store.run_record import RecordedHost, RunRecord
from loadbook.study.model import Study
from loadbook.study.plan import Plan
from run_records import plan_of

CASES = (
    "plain", "all_undecided", "all_invalid", "aa_failed", "one_treatment", "sixteen", "long_names", "japanese",
    "dollar", "wide_interval", "zero_errors", "five_blocks", "no_monitor", "tiny_effects", "huge_effects", "latency",
    "many_excluded",
)  # fmt: skip
GATES = {
    "error-responses": "Error responses", "socket-errors": "Socket errors", "zero-work": "Zero work",
    "driver-saturated": "Driver saturated", "driver-shares-cores": "Driver shares the server's cores",
    "offered-ceiling": "Ceiling is the offered load", "config-not-live": "Configuration not live",
    "answers-differ": "Arms answer differently", "aa-differs": "A/A arm differs", "stolen-cpu": "Stolen or foreign CPU",
}  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """One simulated treatment: its true effect and scatter (standard deviation of log values)."""

    key: str
    label: str
    effect: float = 0.0
    scatter: float = 0.012
    kind: str = "treatment"
    invalid: str | None = None
    force: VerdictKind | None = None
    errors: dict[int, tuple[str, int]] = field(default_factory=dict)
    expected: float | None = None


@dataclass(frozen=True)
class Mock:
    """One simulated study with all data that figures and pages read."""

    case: str
    analysis: Analysis
    values: pd.DataFrame
    reasons: dict[str, str]
    errors: pd.DataFrame
    requests: pd.DataFrame
    panels: dict[str, tuple[pd.DataFrame, Analysis]]
    traces: pd.DataFrame
    trials: pd.DataFrame
    problems: pd.DataFrame
    hosts: dict[str, RecordedHost]
    labels: dict[str, str]
    study: Study
    titles: dict[str, str] = field(default_factory=lambda: dict(GATES))


_CHECKS = (
    Arm("aa", "A/A: baseline again", 0.0, kind="aa"),
    Arm("control", "control: access log on", -0.10, kind="control", expected=-0.10),
)
_PLAIN = (
    Arm("baseline", "baseline", kind="baseline"),
    Arm("tcp_nopush-on", "tcp_nopush on", 0.06),
    Arm("access_log-on", "access log on", -0.047, errors={3: ("errors_timeout", 14), 7: ("errors_read", 2)}),
    Arm("tcp_nodelay-on", "tcp_nodelay on", 0.010, 0.006),
    Arm("use-epoll", "use epoll", 0.002, 0.008),
    Arm("multi_accept-on", "multi_accept on", 0.012, 0.04),
    Arm("gzip-on", "gzip on", 0.2, invalid="answers differ (24 B, not 4 B)"),
    *_CHECKS,
)


def _arms(case: str) -> tuple[Arm, ...]:
    named = {a.key: a for a in _PLAIN}
    if case == "all_undecided":
        return tuple(replace(a, scatter=0.05, effect=0.005) if a.kind == "treatment" else a for a in _PLAIN)
    if case == "all_invalid":
        reason = "the order of its trials was not randomised within blocks, so drift and effect are confounded"
        return tuple(replace(a, invalid=reason) if a.kind == "treatment" else a for a in _PLAIN)
    if case == "aa_failed":
        voided = "the A/A arm differs from the baseline"
        arms = tuple(replace(a, invalid=voided) if a.kind == "treatment" else a for a in _PLAIN)
        return tuple(replace(a, effect=0.05) if a.kind == "aa" else a for a in arms)
    if case == "one_treatment":
        return (named["baseline"], named["tcp_nopush-on"])
    if case == "sixteen":
        effects = np.linspace(-0.12, 0.15, 16)
        more = tuple(Arm(f"t{i}", f"worker_processes {2**i}", float(e), 0.03) for i, e in enumerate(effects))
        return (_PLAIN[0], *more, *_CHECKS)
    if case == "long_names":
        long = ("worker_connections 2048 + nofile 8096 +x", "auto-2048-nofile-nopush-nodelay-accept-ep", "a" * 40)
        extra = "keepalive_requests 1000000, keepalive_timeout 75s, reset_timedout_connection on"
        renamed = [replace(a, label=n) for a, n in zip(_PLAIN[1:5], (*long, extra), strict=True)]
        return (_PLAIN[0], *renamed, *_CHECKS)
    if case == "japanese":
        return tuple(replace(a, label=f"設定 {i}番") for i, a in enumerate(_PLAIN))
    if case == "dollar":
        odd = ("baseline", "cost $5 < $6 & more", "$\\frac{1}{2}$", "<script>alert(1)</script>", "_sub_ ^sup^ %s {0}")
        return tuple(replace(a, label=odd[i] if i < len(odd) else a.label) for i, a in enumerate(_PLAIN))
    if case == "wide_interval":
        return tuple(replace(a, scatter=0.5) if a.key == "multi_accept-on" else a for a in _PLAIN)
    if case == "zero_errors":
        return tuple(replace(a, errors={}) for a in _PLAIN)
    if case == "tiny_effects":
        small = {"tcp_nopush-on": 0.001, "access_log-on": -0.001, "tcp_nodelay-on": 0.0004}
        tiny = [replace(a, effect=small.get(a.key, 0.0), scatter=0.0005) for a in _PLAIN if a.kind != "control"]
        return tuple(tiny)
    if case == "huge_effects":
        huge = {"tcp_nopush-on": 4.0, "access_log-on": -0.8}
        return tuple(replace(a, effect=huge.get(a.key, a.effect)) for a in _PLAIN)
    return _PLAIN


@functools.cache
def mock(case: str = "plain") -> Mock:
    """Return the simulated study of one of the `CASES`."""
    arms, rng = _arms(case), np.random.default_rng(11)
    blocks = 5 if case == "five_blocks" else 12
    name = "latency" if case == "latency" else "ok_per_s"
    margin = {"tiny_effects": 0.0005, "latency": 0.05}.get(case, 0.02)
    plan = _plan(arms, blocks, rng)
    values = _values(plan, arms, 2.2e-3 if name == "latency" else 41_600.0, rng)
    if case == "many_excluded":
        values.loc[values.sample(20, random_state=3).index, "valid"] = False
    if case == "all_invalid":
        values["valid"] = False
    reasons = dict.fromkeys(values.loc[~values["valid"], "trial"], "driver crashed")
    analysis = _analysis(arms, values, name, margin, blocks)
    errors = _errors(values, arms)
    trials = _trials(values, arms)
    return Mock(
        case, analysis, values, reasons, errors, values.assign(value=400_000.0), _panels(plan, arms, blocks),
        _traces(trials, blocks, monitored=case != "no_monitor"), trials, _problems(trials, case), _HOSTS,
        {a.key: a.label for a in arms}, _study(arms),
    )  # fmt: skip


@dataclass(frozen=True)
class Tables:
    """The tables of a simulated run, by which claims are assessed."""

    study: Study
    trials: pd.DataFrame
    measurements: pd.DataFrame
    plan: Plan = field(default_factory=plan_of)
    samples: pd.DataFrame | None = None
    problems: pd.DataFrame | None = None
    run_record: RunRecord | None = None


def assessed(m: Mock, study: Study | None = None) -> list[ClaimResult]:
    """Return the results of the study's claims, judged by the simulated trials."""
    name, statistic = m.analysis.metric, m.analysis.statistic
    parts = [m.values.assign(metric=name, statistic=statistic), m.errors.assign(metric="errors", statistic="count")]
    measurements = pd.concat(parts)[["trial", "metric", "statistic", "value"]].assign(driver="*")
    return check_claims(study or m.study, Tables(study or m.study, m.trials, measurements), m.analysis)


def _plan(arms: tuple[Arm, ...], blocks: int, rng: np.random.Generator) -> pd.DataFrame:
    rows = [
        {"treatment": arms[i].key, "block": block} for block in range(1, blocks + 1) for i in rng.permutation(len(arms))
    ]
    plan = pd.DataFrame(rows)
    plan["slot"] = np.arange(1, len(plan) + 1)
    plan.insert(0, "trial", [f"t{s:04d}" for s in plan["slot"]])
    return plan


def _values(plan: pd.DataFrame, arms: tuple[Arm, ...], level: float, rng: np.random.Generator) -> pd.DataFrame:
    by_key = {a.key: a for a in arms}
    drift = 0.02 * np.sin(plan["slot"] / len(plan) * 5)
    log = [math.log1p(by_key[t].effect) + rng.normal(0, by_key[t].scatter) for t in plan["treatment"]]
    values = plan.assign(
        execution="plain", measures="all", status="ok", valid=True, value=level * np.exp(np.array(log) + drift)
    )
    crashed = values.index[(values["block"] == min(7, values["block"].max())) & (values["slot"] % 5 == 2)][:1]
    values.loc[crashed, "status"], values.loc[crashed, "valid"] = "tool_failed", False
    lost = values.index[values["block"] == 4][-1:]
    values.loc[lost, "status"] = "lost"
    values.loc[lost, "valid"] = False
    values.loc[lost, "value"] = np.nan
    return values


def _analysis(arms: tuple[Arm, ...], values: pd.DataFrame, metric: str, margin: float, blocks: int) -> Analysis:
    wide = values[values["valid"]].pivot_table(index="block", columns="treatment", values="value")
    statistic = get_metric(metric).default_statistic
    rows = [_row(arm, arms[0], wide, values, metric, statistic, margin) for arm in arms]
    treatments = [r for r in rows if r.kind == "treatment"]

    def key(row: AnalysisRow) -> tuple[int, float]:
        assert row.verdict
        return VERDICT_ORDER.index(row.verdict.kind), -abs(row.verdict.comparison.effect or 0)

    checks = [r for r in rows if r.kind in ("aa", "control")]
    ordered = (rows[0], *sorted(treatments, key=key), *checks)
    return Analysis("baseline", metric, statistic, margin, 0.95, ordered, planned_blocks=blocks)


def _row(
    arm: Arm, base: Arm, wide: pd.DataFrame, values: pd.DataFrame, metric: str, statistic: str, margin: float
) -> AnalysisRow:
    own = values[values["treatment"] == arm.key]
    summary = _error_summary(arm, len(own))
    level = float(wide[arm.key].median()) if arm.key in wide else None
    half = level * 0.01 if level else None
    if arm.kind == "baseline":
        return AnalysisRow(
            arm.key, arm.label, "baseline", level, half, len(own), int(own["valid"].sum()), None, summary
        )
    comparison = _comparison(arm, base, wide, metric, statistic)
    kind, reason = _kind(arm, comparison, metric, margin)
    forecast = Forecast(9, 4, 21) if kind == "undecided" else None
    state = _check_state(arm, comparison) if arm.kind != "treatment" else None
    return AnalysisRow(
        arm.key, arm.label, arm.kind, level, half, len(own), int(own["valid"].sum()),  # type: ignore[arg-type]
        Verdict(kind, comparison, margin, forecast, reason), summary, state, arm.expected,
    )  # fmt: skip


def _comparison(arm: Arm, base: Arm, wide: pd.DataFrame, metric: str, statistic: str) -> Comparison:
    pairs = wide[[base.key, arm.key]].dropna() if {base.key, arm.key} <= set(wide) else pd.DataFrame()
    n, out = len(pairs), 0
    if n < 5:
        return Comparison(arm.key, base.key, metric, statistic, n, out, None, None, None, None, None)
    logs = np.log(pairs[arm.key] / pairs[base.key])
    mean, error = float(logs.mean()), float(logs.std(ddof=1)) / math.sqrt(n)

    def interval(level: float) -> tuple[float, float]:
        width = float(sps.t.ppf(0.5 + level / 2, n - 1)) * error
        return math.expm1(mean - width), math.expm1(mean + width)

    p = float(2 * sps.t.sf(abs(mean / error), n - 1))
    family = interval(0.99) if arm.kind == "treatment" else None
    return Comparison(
        arm.key, base.key, metric, statistic, n, len(wide) - n, "blocked-rank" if n >= 8 else "paired-t",
        math.expm1(mean), interval(0.95), interval(0.90), p, min(1.0, 5 * p), family,
    )  # fmt: skip


def _kind(arm: Arm, comparison: Comparison, metric: str, margin: float) -> tuple[VerdictKind, str | None]:
    if arm.invalid or comparison.ci95 is None or comparison.ci90 is None or comparison.effect is None:
        return "invalid", arm.invalid or "fewer than 5 complete blocks"
    excludes = comparison.ci95[0] > 0 or comparison.ci95[1] < 0
    inside = -margin < comparison.ci90[0] and comparison.ci90[1] < margin
    if excludes and not inside:
        return ("better" if (comparison.effect > 0) == (get_metric(metric).better == "higher") else "worse"), None
    if excludes:
        return "small", None
    return ("equivalent" if inside else "undecided"), None


def _check_state(arm: Arm, comparison: Comparison) -> CheckState:
    if comparison.p is None or comparison.ci95 is None:
        return "unchecked"
    passed = comparison.p > 0.01 if arm.kind == "aa" else comparison.ci95[1] < 0
    return "passed" if passed else "failed"


def _error_summary(arm: Arm, trials: int) -> ErrorSummary:
    by_class: dict[str, int] = {}
    for name, count in arm.errors.values():
        by_class[name] = by_class.get(name, 0) + count
    if arm.key == "baseline":
        return ErrorSummary(arm.key, trials, 0, 0, 400_000 * trials, {}, kind="baseline", upper_share=0.22)
    if not arm.errors:
        return ErrorSummary(arm.key, trials, 0, 0, 400_000 * trials, {}, upper_share=0.22)
    kind = "more" if len(arm.errors) > 5 else "undecided"
    total = sum(by_class.values())
    return ErrorSummary(arm.key, trials, len(arm.errors), total, 400_000 * trials, by_class, 0.3, kind)  # type: ignore[arg-type]


def _errors(values: pd.DataFrame, arms: tuple[Arm, ...]) -> pd.DataFrame:
    counts = {(a.key, block): count for a in arms for block, (_, count) in a.errors.items()}
    found = [float(counts.get((t, b), 0)) for t, b in zip(values["treatment"], values["block"], strict=True)]
    return values.assign(value=found)


def _panels(plan: pd.DataFrame, arms: tuple[Arm, ...], blocks: int) -> dict[str, tuple[pd.DataFrame, Analysis]]:
    made = {}
    for name, level, scatter in (("p50", 2.25e-3, 1), ("p75", 2.7e-3, 2), ("p90", 3.8e-3, 4), ("p99", 10e-3, 20)):
        other = tuple(replace(a, effect=1 / (1 + a.effect) - 1, scatter=a.scatter * scatter) for a in arms)
        values = _values(plan, other, level, np.random.default_rng(len(name) + scatter))
        made[name] = (values, replace(_analysis(other, values, "latency", 0.05, blocks), statistic=name))
    return made


_HOSTS = {
    "gen": RecordedHost(roles=["driver"], cpus=[0]),
    "www": RecordedHost(roles=["web"], cpus=[1]),
}


def _trials(values: pd.DataFrame, arms: tuple[Arm, ...]) -> pd.DataFrame:
    frame = values.drop(columns="value").assign(
        study="mock", run="r1", attempt=1, started=1_790_000_000.0 + values["slot"] * 12.0, duration_s=6.0,
        tool="wrk", tool_version="4.1.0", load_model="closed", offered_per_s=np.nan, concurrency=100, drivers=1,
        gates=pd.Series([[]] * len(values), values.index), reason=None, response_status=200, response_bytes=5,
        response_sha256="0" * 64, config_live=True,
    )  # fmt: skip
    return frame


def _traces(trials: pd.DataFrame, blocks: int, monitored: bool) -> pd.DataFrame:
    rng, rows = np.random.default_rng(5), []
    times = np.arange(-2.0, 6.5, 0.25)
    busy = np.where(times < -1.5, 0.03, 1.0)
    for trial in trials.itertuples():
        for host, role, level in (("gen", "driver", 0.62), ("www", "web", 0.96)):
            if not monitored and host == "www":
                continue
            cpu = np.clip(busy * (level + rng.normal(0, 0.015, len(times))), 0, 1)
            series = {
                ("cpu_busy", "cpu0", "1"): cpu if host == "gen" else cpu * 0.6,
                ("cpu_busy", "cpu1", "1"): cpu if host == "www" else cpu * 0.9,
                ("cpu_busy", "all", "1"): cpu * 0.8,
                ("memory_used", "", "B"): np.full(len(times), 230e6),
                ("memory_total", "", "B"): np.full(len(times), 1024.0**3),
                ("net_tx", "eth0", "B/s"): busy * (5e6 + rng.normal(0, 1e5, len(times))),
                ("net_rx", "eth0", "B/s"): busy * (3e6 + rng.normal(0, 1e5, len(times))),
                ("sockets_tcp_tw", "", "1"): np.linspace(10, 400, len(times)),
            }
            for (metric, item, unit), data in series.items():
                rows += [
                    ("mock", "r1", trial.trial, host, role, float(t), metric, item, float(v), unit, "sampler")
                    for t, v in zip(times, data, strict=True)
                    if not 2.0 < t < 3.0 or metric != "net_tx"
                ]
        if trial.block not in (1, 2, (blocks + 1) // 2):
            continue
    columns = ["study", "run", "trial", "host", "role", "t_s", "metric", "item", "value", "unit", "source"]
    return pd.DataFrame(rows, columns=columns)


def _problems(trials: pd.DataFrame, case: str) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []

    def add(trial: str | None, name: str, level: str, message: str) -> None:
        rows.append(
            {"study": "mock", "run": "r1", "trial": trial, "host": None, "file": None, "line": None,
             "name": name, "level": level, "message": message}
        )  # fmt: skip

    for trial in trials.loc[~trials["valid"], "trial"]:
        add(trial, "zero-work", "invalid", "the driver crashed")
    for trial in trials.loc[trials["treatment"] == "gzip-on", "trial"]:
        add(trial, "answers-differ", "doubt", "24 bytes where the baseline sends 4")
    for trial in trials.loc[trials["block"] > 9, "trial"]:
        add(trial, "stolen-cpu", "note", "steal 1 %")
    add(None, "driver-shares-cores", "doubt", "driver and server are on one machine")
    if case == "no_monitor":
        for trial in trials["trial"]:
            add(trial, "driver-saturated", "unchecked", "not checked: no monitor on the driver")
    return pd.DataFrame(rows)


def _study(arms: tuple[Arm, ...]) -> Study:
    def claim(text: str, treatment: str, value: float, against: float = 17_688.0, **more: Any) -> dict[str, Any]:
        return {
            "claim": text,
            "treatment": treatment,
            "against": "baseline",
            "value": value,
            "against_value": against,
            **more,
        }

    known = [a.key for a in arms]
    published = [
        claim("tcp_nopush helps most", known[1], 23_872.0, errors=7754, against_errors=62_488, offered_per_s=25_000.0),
        claim("multi_accept with epoll is best with 1 worker", "not-run", 24_981.0, offered_per_s=25_000.0),
        claim("768 connections are as good as 1024", known[-1], 16_553.0),
        claim("a balancer costs nothing", known[min(2, len(known) - 1)], 24_995.0, 24_900.0, offered_per_s=25_000.0),
    ]  # fmt: skip
    return Study.model_validate(
        {
            "schema": 1,
            "name": "mock",
            "question": "Which nginx directive changes throughput?",
            "baseline": "baseline",
            "roles": {"driver": {}, "web": {"service": "nginx"}},
            "workload": {"tool": "wrk", "connections": 100},
            "treatments": {a.key: {"label": a.label} for a in arms}
            | {"not-run": {"label": "multi_accept + use epoll"}},
            "published": {"source": "an article of 2012", "claims": published},
        }
    )
