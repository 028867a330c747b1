"""All rules on one trial. To add a rule: a function beside its like, a line here, an entry in `core/gates.toml`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from loadbook.core.gates import RULE_INFO, rule_advice
from loadbook.design.study import ValidityLimits
from loadbook.gates import amount, answers, load, machine, pages, together
from loadbook.gates.base import Evidence, RuleHit, Row
from loadbook.records.manifest import TrialRecord

MEASURED_STATUSES = ("ok", "partial", "invalid")
TRIAL_RULES: tuple[Callable[[Evidence], Iterator[RuleHit]], ...] = (
    answers.zero_work,
    answers.error_responses,
    answers.socket_errors,
    answers.driver_limits,
    pages.wrong_response,
    pages.bytes_per_response,
    pages.config_not_live,
    pages.server_identity,
    load.driver_saturated,
    together.drivers_apart,
    load.shared_cores,
    load.offered_ceiling,
    load.offered_shortfall,
    amount.little_law,
    amount.too_short,
    machine.not_at_rest,
    machine.stolen_cpu,
    machine.foreign_cpu,
    machine.monitor_gaps,
    machine.clock,
)


def check_trial(
    record: TrialRecord,
    rows: Sequence[Row],
    traces: Sequence[Row],
    doubts: Sequence[tuple[str, str]],
    thresholds: ValidityLimits,
) -> list[RuleHit]:
    """Return every hit on one trial; a trial that measured nothing (lost, timed out, ...) has none.

    Parameters
    ----------
    rows : its measurements (driver, metric, statistic, value, unit).
    traces : its traces (host, t_s, metric, item, value), t_s in seconds since the measurement window opened.
    doubts : name and message of what the tool's parser doubts; one that a rule has judged already is not repeated.
    """
    if record.status not in MEASURED_STATUSES:
        return []
    evidence = Evidence(record, rows, traces, thresholds, frozenset(name for name, _ in doubts))
    hits = [hit for rule in TRIAL_RULES for hit in rule(evidence)]
    covered = {hit.name for hit in hits if hit.level in ("invalid", "doubt")}
    if None not in load.offered_and_achieved_rates(evidence):  # the study's threshold decides, not the parser's
        covered.add("offered_shortfall")
    return hits + [_parser_hit(record, name, message) for name, message in doubts if name not in covered]


def _parser_hit(record: TrialRecord, name: str, message: str) -> RuleHit:
    rule = name if name in RULE_INFO else "tool_doubt"
    level = RULE_INFO[rule].level if RULE_INFO[rule].level in ("invalid", "note") else "doubt"
    return RuleHit(rule, level, record.trial, record.treatment, None, message + rule_advice(rule))  # type: ignore[arg-type]
