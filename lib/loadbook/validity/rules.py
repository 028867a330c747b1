"""Functions that apply all validity rules to one trial, and to a run as a whole.

To add a rule on trials: write a function beside similar ones, add a line to `TRIAL_RULES` and an entry to
`core/validity_rules.toml`. To add a rule on runs: write a function here or in `machine` or `responses`, add a call in
`check_run` and an entry in the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from loadbook.core.metrics import get_metric
from loadbook.core.units import format_p_value, format_percent
from loadbook.core.validity_rules import doubt_rule, rule_advice
from loadbook.stats.verdict import BASELINE_TEXT, response_difference
from loadbook.store.trial_record import TrialRecord
from loadbook.study.limits import ValidityLimits
from loadbook.study.model import Study
from loadbook.validity import load, machine, responses, slices
from loadbook.validity.base import TOTAL, Evidence, Row, RuleHit, Severity, not_checked, rule_hit

if TYPE_CHECKING:
    import pandas as pd

UNSTEADY = "unsteady"


def unsteady(records: Sequence[TrialRecord], samples: pd.DataFrame) -> Iterator[RuleHit]:
    """Judge whether the rate of each treatment was steady within trials, by the rates per second of valid trials."""
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
    machine.not_at_rest,
    machine.stolen_cpu,
    machine.foreign_cpu,
    machine.monitor_gaps,
    machine.clock,
    load.stall,
    slices.late_slices,
    slices.unasked_work,
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
    hits = [hit for rule in TRIAL_RULES for hit in rule(evidence)]
    if record.capacity:
        hits = [hit for hit in hits if hit.name not in SERVER_RULES]
    covered = {hit.name for hit in hits if hit.level in ("invalid", "doubt")}
    if None not in load.offered_and_achieved_rates(evidence):  # the study's threshold decides, not the parser's
        covered.add("offered_shortfall")
    return hits + [_parser_hit(record, name, message) for name, message in doubts if name not in covered]


def _parser_hit(record: TrialRecord, name: str, message: str) -> RuleHit:
    rule = doubt_rule(name)
    level = rule.level if rule.level in ("invalid", "note") else "doubt"
    return RuleHit(rule.name, level, record.trial, record.treatment, None, message + rule_advice(rule.name))  # type: ignore[arg-type]


MIN_DIGEST_TRIALS = 2


def check_run(
    study: Study,
    records: Sequence[TrialRecord],
    measurements: Sequence[Row],
    excluded: Collection[str] = (),
    facts: Mapping[str, Any] | None = None,
    samples: pd.DataFrame | None = None,
    changes: Changes | None = None,
) -> list[RuleHit]:
    """Return the hits on a run; hits on one trial name it, hits on a treatment or the whole run do not.

    Parameters
    ----------
    measurements : rows of all trials with trial, driver, metric, statistic, value.
    excluded : trials that are invalid by a rule on trials; they are not used here.
    facts : facts of the hosts, under ``<host>-before`` and ``<host>-after``.
    changes : (service, variable) -> measured quantities that the variable must change.
    samples : the samples table; without it the rule `unsteady` is not applied.
    """
    measured = [record for record in records if record.status == "ok" and record.trial not in excluded]
    return [
        *arms_answer_differently(study, measured),
        *bytes_differ(study, measured, measurements),
        *treatment_not_exercised(study, measured, measurements, changes or {}),
        *machine.facts_differ(study, measured, facts or {}),
        *(hit for hit in machine.state_grew_within_block(study, records) if hit.trial in {r.trial for r in measured}),
        *aa_differs(study, measured, measurements),
        *responses.order_not_random(records),
        *responses.same_output(records),
        *(unsteady(measured, samples) if samples is not None else ()),
    ]


def arms_answer_differently(study: Study, records: Sequence[TrialRecord]) -> Iterator[RuleHit]:
    """Compare each treatment's most frequent response (status, bytes, then content) with the baseline's.

    If a factor sets the size of the page, treatments with the same size are compared with the first of them. The rule
    `wrong_response` checks in every trial that the page has the right size.
    """
    for treatment in study.treatments:
        first = study.first_same_page(treatment)
        own_records, base_records = ([r for r in records if r.treatment == name] for name in (treatment, first))
        if not own_records or treatment == first:
            continue
        difference = response_difference(_response_sizes(own_records), _response_sizes(base_records))
        if difference:
            observation = difference.replace(BASELINE_TEXT, _arm_name(study, first))
            yield _treatment_hit("arms_answer_differently", "invalid", treatment, observation)
        elif _contents_differ(own_records, base_records):
            observation = f"it sends other bytes than {_arm_name(study, first)}, of the same number"
            yield _treatment_hit("arms_answer_differently", "doubt", treatment, observation)


def _arm_name(study: Study, arm: str) -> str:
    return BASELINE_TEXT if arm == study.baseline else arm


def _response_sizes(records: Sequence[TrialRecord]) -> list[tuple[int | None, int | None]]:
    return [(r.response_before.status, r.response_before.bytes) for r in records if r.response_before]


def _contents_differ(own_records: Sequence[TrialRecord], base_records: Sequence[TrialRecord]) -> bool:
    """Return whether each arm always sends the same content and the contents differ."""
    own_digests, base_digests = (
        [r.response_before.sha256 for r in arm if r.response_before] for arm in (own_records, base_records)
    )
    constant = len(set(own_digests)) == len(set(base_digests)) == 1
    trials = min(len(own_digests), len(base_digests))
    return constant and trials >= MIN_DIGEST_TRIALS and own_digests[0] != base_digests[0]


def bytes_differ(study: Study, records: Sequence[TrialRecord], measurements: Sequence[Row]) -> Iterator[RuleHit]:
    """Compare bytes per response under load: each trial with its treatment's median, each treatment with the baseline.

    Tools send different headers and count bytes differently, so only trials of the same tool are compared.
    """
    tolerance, sizes_by_arm = study.validity.bytes_tolerance, _bytes_per_response(records, measurements)
    medians = {key: median(sizes.values()) for key, sizes in sizes_by_arm.items()}
    for (treatment, tool), sizes in sizes_by_arm.items():
        first = study.first_same_page(treatment)
        own_median, base_median = medians[treatment, tool], medians.get((first, tool))
        for trial, size in sizes.items():
            if abs(size - own_median) > tolerance * own_median:
                observation = f"{size:,.0f} bytes came per response, {own_median:,.0f} in most trials of {treatment}"
                record = next(r for r in records if r.trial == trial)
                yield rule_hit("bytes_per_response", "doubt", observation, record)
        if base_median is not None and abs(own_median - base_median) > tolerance * base_median:
            reference = f"{_arm_name(study, first)} {base_median:,.0f}"
            observation = f"under load it sent {own_median:,.0f} bytes per response, {reference} (headers included)"
            yield _treatment_hit("arms_answer_differently", "doubt", treatment, observation)


# (service, variable) -> measured quantities that the variable must change ("response_bytes")
Changes = Mapping[tuple[str, str], Collection[str]]
SAME_BYTES = 0.001  # of the bytes per response; a larger difference counts as a change


def treatment_not_exercised(
    study: Study, records: Sequence[TrialRecord], measurements: Sequence[Row], changes: Changes
) -> Iterator[RuleHit]:
    """Find treatments with a variable that must change the bytes per response, but did not."""
    medians = {arm: median(sizes.values()) for arm, sizes in _bytes_per_response(records, measurements).items()}
    for treatment in study.treatments:
        reference = study.baseline_of(treatment)
        settings = _settings_that_change_bytes(study, treatment, reference, changes)
        tools = {r.tool for r in records if r.treatment == treatment}
        if not settings or not tools:
            continue
        pairs = [(medians.get((treatment, tool)), medians.get((reference, tool))) for tool in tools]
        if any(own is None or base is None for own, base in pairs):
            reason = f"{treatment}: the bytes of its responses are not counted"
            yield not_checked("treatment_not_exercised", reason, treatment=treatment)
        elif own_base := [(own, base) for own, base in pairs if own and base and abs(own / base - 1) < SAME_BYTES]:
            own, base = own_base[0]
            came = f"{own:,.1f} came per response, {_arm_name(study, reference)} {base:,.1f}"
            observation = f"{', '.join(settings)} should change the bytes of a response: {came}"
            yield _treatment_hit("treatment_not_exercised", "doubt", treatment, observation)


def _settings_that_change_bytes(study: Study, treatment: str, reference: str, changes: Changes) -> list[str]:
    own, base = study.levels_of(treatment), study.levels_of(reference)
    factors = {name: f for name, f in study.factors.items() if f.of == "vars" and own[name] != base[name]}
    keys = {n: (study.setting(treatment, f.role).service or "", f.var or n) for n, f in factors.items()}
    return [f"{name} = {own[name]}" for name, key in keys.items() if "response_bytes" in changes.get(key, ())]


def _bytes_per_response(
    records: Sequence[TrialRecord], measurements: Sequence[Row]
) -> dict[tuple[str, str], dict[str, float]]:
    """Return (treatment, tool) -> trial -> bytes received per response, if the tool counts both."""
    counted = {
        (row["trial"], row["metric"]): row["value"]
        for row in measurements
        if row["driver"] == TOTAL and row["metric"] in ("bytes_read", "requests")
    }
    sizes: dict[tuple[str, str], dict[str, float]] = {}
    for record in records:
        received, requests = (counted.get((record.trial, metric)) for metric in ("bytes_read", "requests"))
        if received is not None and requests:
            sizes.setdefault((record.treatment, record.tool), {})[record.trial] = received / requests
    return sizes


def aa_differs(study: Study, records: Sequence[TrialRecord], measurements: Sequence[Row]) -> Iterator[RuleHit]:
    """Compare each A/A arm with the treatment that it repeats, on the study's metric."""
    for name, spec in study.treatments.items():
        if spec.check != "aa" or not any(r.treatment == name for r in records):
            continue
        reference = study.repeated_treatment(name) or study.baseline
        p, effect, blocks = _compare_arms(study, records, measurements, name, reference)
        if p is None:
            yield not_checked("aa_differs", f"{blocks} complete blocks, 5 are needed", treatment=name)
        elif p < study.validity.aa_p:
            evidence = f"p {format_p_value(p)}, {blocks} blocks"
            observation = f"it differs from {reference} by {format_percent(effect)} ({evidence})"
            yield _treatment_hit("aa_differs", "invalid", name, observation)


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


def _treatment_hit(name: str, level: Severity, treatment: str, observation: str) -> RuleHit:
    return rule_hit(name, level, f"{treatment}: {observation}", treatment=treatment)
