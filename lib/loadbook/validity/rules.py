"""Functions that apply all validity rules to one trial, and to a run as a whole.

To add a rule on trials: write a function beside similar ones, add a line to `TRIAL_RULES` and an entry to
`core/validity_rules.toml`. To add a rule on runs: write a function here or in `machine` or `responses`, add a call in
`check_run` and an entry in the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loadbook.core.metrics import get_metric
from loadbook.core.units import format_p_value, format_percent, pluralize
from loadbook.core.validity_rules import doubt_rule
from loadbook.modes.plain.rules import rules_of
from loadbook.store.trial_record import TrialRecord
from loadbook.study.limits import ValidityLimits
from loadbook.study.model import Study
from loadbook.validity import host_limits, load, machine, responses
from loadbook.validity.base import TOTAL, Evidence, Row, RuleHit, not_checked, rule_hit
from loadbook.validity.treatments import (
    Changes,
    arms_answer_differently,
    bytes_differ,
    treatment_hit,
    treatment_not_exercised,
)

if TYPE_CHECKING:
    import pandas as pd

UNSTEADY = "unsteady"


def unsteady(records: Sequence[TrialRecord], samples: pd.DataFrame) -> Iterator[RuleHit]:
    """Judge whether the rate of each treatment was steady within trials, by the rates per second of valid trials.

    `samples` is the table samples of the run.
    """
    from loadbook.stats.steady_state import MIN_SERIES_S, rate_series, rate_trends

    if not records:
        return
    trends_by_treatment = rate_trends(samples, {record.trial: record.treatment for record in records})
    unknown = [treatment for treatment, trend in trends_by_treatment.items() if trend is None]
    if len(unknown) == len(trends_by_treatment):
        series = rate_series(samples)
        longest_s = max((series[record.trial].duration_s for record in records if record.trial in series), default=None)
        tools = " and ".join(dict.fromkeys(record.tool for record in records))
        reason = f"no rates per second of {tools}"
        if (samples["metric"] == "overrun").any():
            reason = "of slices no rates per second are known"
        if longest_s is not None:
            reason = f"at most {longest_s:g} s of rates per second, {MIN_SERIES_S:g} s are needed"
        yield not_checked(UNSTEADY, reason)
        return
    for treatment, trend in trends_by_treatment.items():
        if trend is None:
            reason = f"{treatment}: no rates per second over {MIN_SERIES_S:g} s"
            yield not_checked(UNSTEADY, reason, treatment=treatment)
        elif trend.moving:
            moved = f"moved by {format_percent(trend.change)} after the first ten seconds of its trials"
            observation = f"{treatment}: the rate {moved} (p {format_p_value(trend.p)})"
            yield rule_hit(UNSTEADY, "doubt", observation, treatment=treatment)


MEASURED_STATUSES = ("ok", "partial", "invalid")
TRIAL_RULES: tuple[Callable[[Evidence], Iterator[RuleHit]], ...] = (
    load.zero_work,
    load.error_responses,
    load.socket_errors,
    load.driver_limits,
    responses.wrong_response,
    responses.bytes_per_response,
    responses.config_not_live,
    responses.server_identity,
    load.driver_saturated,
    load.drivers_apart,
    load.shared_cores,
    load.offered_ceiling,
    load.offered_shortfall,
    responses.little_law,
    responses.too_short,
    host_limits.unserved_connections,
    host_limits.cpu_throttled,
    machine.not_at_rest,
    machine.stolen_cpu,
    machine.foreign_cpu,
    machine.monitor_gaps,
    machine.clock,
    load.stall,
)

# rules on what the server does under too much load: a load that is judged by an objective has missed it
SERVER_RULES = ("zero_work", "error_responses", "socket_errors", "stall", "wrong_response")


def check_trial(
    record: TrialRecord,
    rows: Sequence[Row],
    traces: Sequence[Row],
    doubts: Sequence[tuple[str, str]],
    thresholds: ValidityLimits,
    samples: Sequence[Row] = (),
) -> list[RuleHit]:
    """Return all hits on one trial; none if the trial measured nothing (lost, timed out, ...).

    Parameters
    ----------
    rows : measurements of the trial (driver, metric, statistic, value, unit).
    traces : traces of the trial (host, t_s, metric, item, value); t_s in seconds since the measurement window opened.
    doubts : name and message of doubts of the tool's parser; those that a rule has judged are not repeated.
    samples : series within the trial (series, metric, x, value), such as requests per second.
    """
    if record.status not in MEASURED_STATUSES:
        return []
    evidence = Evidence(record, rows, traces, thresholds, frozenset(name for name, _ in doubts), samples)
    mode = rules_of(record)
    hits = [hit for rule in (*TRIAL_RULES, *mode.trial_rules) for hit in rule(evidence)]
    if mode.is_judged_by_objective:
        hits = [hit for hit in hits if hit.name not in SERVER_RULES]
    covered = {hit.name for hit in hits if hit.level in ("invalid", "doubt")}
    if None not in load.offered_and_achieved_rates(evidence):  # the study's threshold decides, not the parser's
        covered.add("offered_shortfall")
    for name, message in doubts:
        if name not in covered:
            rule = doubt_rule(name)
            level = rule.level if rule.level in ("invalid", "note") else "doubt"
            hits.append(rule_hit(rule.name, level, message, record))  # type: ignore[arg-type]
    return hits


def check_run(
    study: Study,
    records: Sequence[TrialRecord],
    measurements: Sequence[Row],
    excluded: Collection[str] = (),
    facts: Mapping[str, Any] | None = None,
    samples: pd.DataFrame | None = None,
    changes: Changes | None = None,
    ineffective: Mapping[str, Collection[str]] | None = None,
) -> list[RuleHit]:
    """Return the hits on a run; hits on one trial name it, hits on a treatment or the whole run do not.

    Parameters
    ----------
    measurements : rows of all trials with trial, driver, metric, statistic, value.
    excluded : trials that are invalid by a rule on trials; they are not compared. Only the rules on order, on copied
        outputs and on hosts at the start of a block still read them.
    facts : facts of the hosts, under ``<host>-before`` and ``<host>-after``.
    changes : (service, variable) -> measured quantities that the variable must change ("response_bytes").
    ineffective : sentence on a setting that lacks what it needs -> treatments that have it.
    samples : the samples table; without it the rule `unsteady` is not applied.
    """
    measured = [record for record in records if record.status == "ok" and record.trial not in excluded]
    return [
        *arms_answer_differently(study, measured),
        *bytes_differ(study, measured, measurements),
        *treatment_not_exercised(study, measured, measurements, changes or {}, ineffective or {}),
        *machine.facts_differ(study, measured, facts or {}),
        *host_limits.hidden_cpu_time(measured, facts or {}),
        *machine.service_warnings(measured, facts or {}),
        *machine.more_workers_than_cpus(study, measured, facts or {}),
        *(hit for hit in machine.state_grew_within_block(study, records) if hit.trial in {r.trial for r in measured}),
        *aa_differs(study, measured, measurements),
        *responses.order_not_random(records),
        *responses.same_output(records),
        *(unsteady(measured, samples) if samples is not None else ()),
    ]


def aa_differs(study: Study, records: Sequence[TrialRecord], measurements: Sequence[Row]) -> Iterator[RuleHit]:
    """Compare each A/A arm with the treatment that it repeats, on the study's metric: invalid if they differ.

    `measurements` as in `check_run`.
    """
    for name, spec in study.treatments.items():
        if spec.check != "aa" or not any(r.treatment == name for r in records):
            continue
        reference = study.repeated_treatment(name) or study.baseline
        p, effect, blocks = _compare_arms(study, records, measurements, name, reference)
        if p is None:
            yield not_checked("aa_differs", f"{pluralize(blocks, 'complete block')}, 5 are needed", treatment=name)
        elif p < study.validity.aa_p:
            evidence = f"p {format_p_value(p)}, {pluralize(blocks, 'block')}"
            observation = f"it differs from {reference} by {format_percent(effect)} ({evidence})"
            yield treatment_hit("aa_differs", "invalid", name, observation)


def _compare_arms(
    study: Study, records: Sequence[TrialRecord], measurements: Sequence[Row], name: str, reference: str
) -> tuple[float | None, float, int]:
    import pandas as pd

    from loadbook.stats.compare import compare

    statistic = get_metric(study.metric).default_statistic
    values = {
        row["trial"]: row["value"]
        for row in measurements
        if (row["driver"], row["metric"], row["statistic"]) == (TOTAL, study.metric, statistic)
    }
    rows = [(r.treatment, r.block, values.get(r.trial)) for r in records if r.treatment in (name, reference)]
    comparison = compare(pd.DataFrame(rows, columns=["treatment", "block", "value"]), name, reference)
    return comparison.p, comparison.effect or 0.0, comparison.blocks
