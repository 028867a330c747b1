"""All rules on one trial. To add a rule: a function beside its like, a line here, an entry in `core/gates.toml`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from loadbook.core.gates import GATES, ending
from loadbook.design.study import Gates
from loadbook.gates import amount, answers, load, machine, pages, together
from loadbook.gates.base import Evidence, Hit, Row
from loadbook.records.manifest import TrialRecord

MEASURED = ("ok", "partial", "invalid")
RULES: tuple[Callable[[Evidence], Iterator[Hit]], ...] = (
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
    thresholds: Gates,
) -> list[Hit]:
    """Return every hit on one trial; a trial that measured nothing (lost, timed out, ...) has none.

    Parameters
    ----------
    rows : its measurements (driver, metric, statistic, value, unit).
    traces : its traces (host, t_s, metric, item, value), t_s in seconds since the measurement window opened.
    doubts : name and message of what the tool's parser doubts; one that a rule has judged already is not repeated.
    """
    if record.status not in MEASURED:
        return []
    evidence = Evidence(record, rows, traces, thresholds, frozenset(name for name, _ in doubts))
    hits = [hit for rule in RULES for hit in rule(evidence)]
    judged = {hit.name for hit in hits if hit.level in ("invalid", "doubt")}
    if None not in load.rates(evidence):  # the study's threshold decides, not the parser's
        judged.add("offered_shortfall")
    return hits + [_doubt(record, name, said) for name, said in doubts if name not in judged]


def _doubt(record: TrialRecord, name: str, said: str) -> Hit:
    known = name if name in GATES else "tool_doubt"
    level = GATES[known].level if GATES[known].level in ("invalid", "note") else "doubt"
    return Hit(known, level, record.trial, record.treatment, None, said + ending(known))  # type: ignore[arg-type]
