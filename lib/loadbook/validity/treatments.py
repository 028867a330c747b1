"""Rules on treatments: whether each answers as the baseline does, and whether it changed anything at all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from loadbook.stats.comparability import BASELINE_TEXT, response_difference
from loadbook.store.trial_record import TrialRecord
from loadbook.study.model import Study
from loadbook.validity.base import TOTAL, Row, RuleHit, Severity, not_checked, rule_hit

MIN_DIGEST_TRIALS = 2


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
        name = _arm_name(study, first)
        difference = response_difference(_response_sizes(own_records), _response_sizes(base_records), name)
        contents = [[r.response_before.sha256 for r in arm if r.response_before] for arm in (own_records, base_records)]
        is_constant = all(len(digests) >= MIN_DIGEST_TRIALS and len(set(digests)) == 1 for digests in contents)
        if difference:
            yield treatment_hit("arms_answer_differently", "invalid", treatment, difference)
        elif is_constant and contents[0][0] != contents[1][0]:
            observation = f"it sends other bytes than {name}, of the same number"
            yield treatment_hit("arms_answer_differently", "doubt", treatment, observation)


def _arm_name(study: Study, arm: str) -> str:
    return BASELINE_TEXT if arm == study.baseline else arm


def _response_sizes(records: Sequence[TrialRecord]) -> list[tuple[int | None, int | None]]:
    return [(r.response_before.status, r.response_before.bytes) for r in records if r.response_before]


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
            yield treatment_hit("arms_answer_differently", "doubt", treatment, observation)


# (service, variable) -> measured quantities that the variable must change ("response_bytes")
Changes = Mapping[tuple[str, str], Collection[str]]
SAME_BYTES = 0.001  # of the bytes per response; a larger difference counts as a change


def treatment_not_exercised(
    study: Study,
    records: Sequence[TrialRecord],
    measurements: Sequence[Row],
    changes: Changes,
    ineffective: Mapping[str, Collection[str]],
) -> Iterator[RuleHit]:
    """Find treatments that changed nothing, once each.

    The configuration is that of the baseline; or a setting lacks what it needs; or responses should have another
    number of bytes, but have not. The parameters are those of `check_run`.
    """
    lacking = {name: text for text, treatments in ineffective.items() for name in treatments}
    same = _configured_as_baseline(study, records)
    medians = {arm: median(sizes.values()) for arm, sizes in _bytes_per_response(records, measurements).items()}
    for treatment in study.treatments:
        tools = {r.tool for r in records if r.treatment == treatment}
        text = same.get(treatment) or lacking.get(treatment)
        if tools and text:
            yield treatment_hit("treatment_not_exercised", "doubt", treatment, text)
        elif tools:
            yield from _same_bytes(study, treatment, tools, medians, changes)


# keys of a role that are in the recorded configuration of its service
CONFIGURED_KEYS = {"vars", "config", "config_text"}


def _configured_as_baseline(study: Study, records: Sequence[TrialRecord]) -> dict[str, str]:
    """Return treatments whose load, configurations and answers are those of the baseline -> text."""
    seen: dict[str, set[tuple[Any, ...]]] = {}
    for record in records:
        answer = record.response_before
        services = sorted((s.role, s.host, s.service, s.config_sha256) for s in record.services)
        seen.setdefault(record.treatment, set()).add(
            (answer and (answer.status, answer.bytes, answer.server), *services)
        )
    with_services = {name: rows for name, rows in seen.items() if all(len(row) > 1 for row in rows)}
    return configured_alike(study, with_services)


def configured_alike(study: Study, configurations: Mapping[str, Collection[tuple[Any, ...]]]) -> dict[str, str]:
    """Return treatments whose load, hosts and services are those of the baseline -> text that says so.

    Parameters
    ----------
    configurations : treatment -> role, host, service and digest of the configuration of its services. The digest is
        that of the files and commands that the live process is proved to run, without ports, folders and names of
        hosts (`services.render`).
    """
    texts: dict[str, str] = {}
    for treatment, own in configurations.items():
        reference = study.baseline_of(treatment)
        if study.repeated_treatment(treatment) or treatment == reference or own != configurations.get(reference):
            continue
        if _conditions(study, treatment) == _conditions(study, reference):
            levels = ", ".join(_changed_levels(study, treatment, reference).values())
            texts[treatment] = (
                f"{levels + ': ' if levels else ''}the load and the configuration of every service are those of "
                f"{_arm_name(study, reference)}"
            )
    return texts


def _conditions(study: Study, treatment: str) -> tuple[Any, ...]:
    """Return the load of a treatment, and the keys of its roles that are not in the configuration of a service."""
    settings = [study.setting(treatment, role).model_dump(exclude=CONFIGURED_KEYS) for role in study.roles]
    return study.workload_of(treatment), *settings


def _changed_levels(study: Study, treatment: str, reference: str) -> dict[str, str]:
    """Return factor -> "factor = level", of the factors whose level is not that of the reference."""
    own, base = study.levels_of(treatment), study.levels_of(reference)
    return {name: f"{name} = {own[name]}" for name in study.factors if own[name] != base[name]}


def _same_bytes(
    study: Study, treatment: str, tools: Collection[str], medians: Mapping[tuple[str, str], float], changes: Changes
) -> Iterator[RuleHit]:
    """Find a variable that must change the bytes per response, but did not; `medians` are by treatment and tool."""
    reference = study.baseline_of(treatment)
    levels = _changed_levels(study, treatment, reference)
    factors = {name: study.factors[name] for name in levels if study.factors[name].of == "vars"}
    keys = {n: (study.setting(treatment, f.role).service or "", f.var or n) for n, f in factors.items()}
    settings = [levels[name] for name, key in keys.items() if "response_bytes" in changes.get(key, ())]
    if not settings:
        return
    pairs = [(medians.get((treatment, tool)), medians.get((reference, tool))) for tool in tools]
    if any(own is None or base is None for own, base in pairs):
        reason = f"{treatment}: the bytes of its responses are not counted"
        yield not_checked("treatment_not_exercised", reason, treatment=treatment)
    elif own_base := [(own, base) for own, base in pairs if own and base and abs(own / base - 1) < SAME_BYTES]:
        own, base = own_base[0]
        came = f"{own:,.1f} came per response, {_arm_name(study, reference)} {base:,.1f}"
        observation = f"{', '.join(settings)} should change the bytes of a response: {came}"
        yield treatment_hit("treatment_not_exercised", "doubt", treatment, observation)


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


def treatment_hit(name: str, level: Severity, treatment: str, observation: str) -> RuleHit:
    """Return a hit of a rule on a treatment, whose name precedes the observation."""
    return rule_hit(name, level, f"{treatment}: {observation}", treatment=treatment)
