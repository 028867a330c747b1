"""Rules on hosts: other load, gaps in samples, clocks, changed conditions, hosts that an earlier trial has altered."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import ceil
from operator import attrgetter
from typing import Any

from loadbook.core.units import format_percent, shorten_list
from loadbook.modes.base import mode_of_record
from loadbook.store.run_record import AFTER_SUFFIX, BEFORE_SUFFIX, fact_before, fact_differences, host_cpu_quota
from loadbook.store.trial_record import TrialRecord
from loadbook.study.model import Study
from loadbook.validity.base import Evidence, RuleHit, not_checked, rule_hit

MAX_NAMED_TREATMENTS, MAX_NAMED_RUNS, MAX_WARNINGS = 3, 3, 5


def stolen_cpu(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge the CPU time stolen by the hypervisor on the host's own CPUs."""
    if not evidence.record.monitors:
        yield evidence.unchecked("stolen_cpu", "no monitor was running")
    for monitor in evidence.record.monitors:
        steal = evidence.cpu_means(monitor, "cpu_steal")
        if not steal:
            yield evidence.unchecked("stolen_cpu", "no steal trace", monitor.host)
        elif max(steal.values()) > evidence.thresholds.steal:
            cpu = max(steal, key=lambda item: steal[item])
            observation = f"{format_percent(steal[cpu], 1, signed=False)} of {cpu} was stolen"
            yield evidence.hit("stolen_cpu", "doubt", observation, monitor.host)


def foreign_cpu(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge the CPU time, in CPUs, that no monitored process used on the host's own CPUs.

    Hosts may share a machine (the lab): only CPUs in the host's mask count, and if masks overlap, the processes
    monitored for the other host count as known. Stolen time is subtracted, since `stolen_cpu` judges it.
    """
    if not evidence.record.monitors:
        yield evidence.unchecked("foreign_cpu", "no monitor was running")
    for monitor in evidence.record.monitors:
        busy = evidence.cpu_means(monitor, "cpu_busy")
        watched = [evidence.trace_means(m.host, "process_cpu") for m in evidence.monitors_sharing_cpus(monitor)]
        if not busy or not any(watched):
            yield evidence.unchecked("foreign_cpu", "no trace of CPUs and processes", monitor.host)
            continue
        stolen = evidence.cpu_means(monitor, "cpu_steal")
        foreign = sum(busy.values()) - sum(stolen.values()) - sum(sum(means.values()) for means in watched)
        if foreign > evidence.thresholds.foreign_cpu:
            owner = "the driver" if monitor.host in (d.host for d in evidence.record.drivers) else monitor.host
            used = f"{format_percent(foreign, 0, signed=False)} of {owner}'s CPU"
            used = used if len(busy) == 1 else f"{foreign:.2g} of {owner}'s {len(busy)} CPUs"
            observation = f"other programs used {used}"
            if others := evidence.record.other_runs.get(monitor.host):
                observation += f"; on this machine was {', '.join(shorten_list(others, MAX_NAMED_RUNS))}"
            yield evidence.hit("foreign_cpu", "doubt", observation, monitor.host)


def not_at_rest(evidence: Evidence) -> Iterator[RuleHit]:
    """Find hosts that were not at rest when the trial began, so that the previous trial affects it."""
    if not evidence.record.reset:
        yield evidence.unchecked("not_at_rest", "the hosts' state before the trial was not recorded")
    for host, state in evidence.record.reset.items():
        if not state.get("at_rest", 1.0):
            sockets, waited_s = state.get("time_wait", 0), state.get("waited_s", 0)
            observation = f"{sockets:,.0f} sockets in TIME-WAIT after {waited_s:.0f} s of rest"
            yield evidence.hit("not_at_rest", "doubt", observation, host)


def monitor_gaps(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge the share of the measurement window that samples cover."""
    window = evidence.window_s
    if not evidence.record.monitors or not window:
        yield evidence.unchecked("monitor_gaps", "no monitor was running" if window else "no measurement window")
        return
    for monitor in evidence.record.monitors:
        times = evidence.sample_times(monitor.host)
        edges = [0.0, *times, window]
        gaps = [later - earlier for earlier, later in pairwise(edges)]
        lost_s = sum(gap - monitor.interval_s for gap in gaps if gap > 2 * monitor.interval_s)
        covered = max(0.0, 1 - lost_s / window) if times else 0.0
        if covered < evidence.thresholds.trace_coverage:
            observation = f"samples cover {format_percent(covered, 0, signed=False)} of the measurement"
            yield evidence.hit("monitor_gaps", "doubt", observation, monitor.host)


def clock(evidence: Evidence) -> Iterator[RuleHit]:
    """Find impossible durations, and host clocks that moved relative to the controller's clock during the trial."""
    duration, window = evidence.total("duration"), evidence.window_s
    if duration is not None and duration <= 0:
        yield evidence.hit("clock", "invalid", f"the tool measured for {duration:g} s")
    elif duration is not None and window and duration > evidence.thresholds.absurd_duration * max(window, 1.0):
        observation = f"the tool says it measured for {duration:g} s, our clock says {window:.1f} s"
        yield evidence.hit("clock", "invalid", observation)
    if not evidence.record.clocks:
        yield evidence.unchecked("clock", "no clock was compared")
    for host, offsets in evidence.record.clocks.items():
        if offsets.offset_after_s is None:
            yield evidence.unchecked("clock", "the clock was not compared after the load", host)
            continue
        step = abs(offsets.offset_after_s - offsets.offset_before_s)
        if step > evidence.thresholds.clock_step_s + offsets.rtt_before_s + (offsets.rtt_after_s or 0.0):
            yield evidence.hit("clock", "doubt", f"the host's clock moved by {step:.2f} s against ours", host)


# (host, further subject of the value such as a tool or treatment) -> value
ConditionValues = Mapping[tuple[str | None, str], str | None]

# fields of a load that are no conditions: the results of a search for capacity, and whether the tool writes all times
SEARCHED_FIELDS = ("rate_per_s", "duration_s", "connections", "max_connections")
TOLD_FIELD = "request_times"


def facts_differ(study: Study, records: Sequence[TrialRecord], facts: Mapping[str, Any]) -> Iterator[RuleHit]:
    """Find recorded conditions that differ between trials, or before and after the run, without being a factor.

    `facts` are facts of the hosts (kernel, hardware, settings) under ``<host>-before`` and ``<host>-after``.
    """
    for kind, values in _conditions_by_kind(records).items():
        yield from _differing_trials(kind, values)
    if records and not facts and not any(r.boot_ids or r.services for r in records):
        yield not_checked("facts_differ", "no facts of any host were recorded")
    for name in facts:
        if name.endswith(BEFORE_SUFFIX):
            host = name.removesuffix(BEFORE_SUFFIX)
            yield from _changed_facts(study, host, facts[name], facts.get(host + AFTER_SUFFIX))


def _conditions_by_kind(records: Sequence[TrialRecord]) -> dict[str, list[tuple[TrialRecord, ConditionValues]]]:
    """Return, per kind of condition that can differ between trials, its value in each trial."""
    conditions: dict[str, list[tuple[TrialRecord, ConditionValues]]] = {}
    for r in records:
        drivers, treatment_key = [driver.host for driver in r.drivers], f"treatment {r.treatment}"
        left_out = {TOLD_FIELD, *(() if mode_of_record(r).has_given_rate(r) else SEARCHED_FIELDS)}
        told = {name: value for name, value in r.workload.items() if name not in left_out and value is not None}
        load = json.dumps(told, sort_keys=True)
        server = r.response_before.server if r.response_before else None
        kinds: dict[str, ConditionValues] = {
            "was rebooted": {(host, ""): boot for host, boot in r.boot_ids.items()},
            "ran another version of the tool": {(host, r.tool): r.tool_version for host in drivers},
            "ran another version of the service": {(s.host, s.service): s.version for s in r.services},
            "had another CPU mask": {(m.host, ""): ",".join(map(str, m.cpus)) or None for m in r.monitors},
            "ran another configuration of the treatment": {
                (s.host, s.role + treatment_key): s.config_sha256 for s in r.services
            },
            "was given another load": dict.fromkeys(((host, treatment_key) for host in drivers), load),
            "was answered by another server": dict.fromkeys(((host, treatment_key) for host in drivers), server),
        }
        for kind, values in kinds.items():
            conditions.setdefault(kind, []).append((r, values))
    return conditions


def _differing_trials(kind: str, values: Sequence[tuple[TrialRecord, ConditionValues]]) -> Iterator[RuleHit]:
    """Yield a doubt on each trial whose value differs from the value of most trials."""
    by_key: dict[tuple[str | None, str], list[tuple[TrialRecord, str]]] = {}
    for record, values_by_subject in values:
        for key, value in values_by_subject.items():
            if value is not None:
                by_key.setdefault(key, []).append((record, value))
    for (host, _), trials in by_key.items():
        usual = Counter(value for _, value in trials).most_common(1)[0][0]
        for record, value in trials:
            if value != usual:
                own_text, usual_text = map(_shorten, _differing_fields(value, usual))
                observation = f"{host} {kind} ({own_text}, {usual_text} in most trials)"
                yield rule_hit("facts_differ", "doubt", observation, record, host=host)


def _differing_fields(value: str, usual: str) -> tuple[str, str]:
    """Return two values as text; of two loads, only the fields that differ."""
    if not value.startswith("{"):
        return value, usual
    loads = json.loads(value), json.loads(usual)
    fields = [name for name in loads[0] | loads[1] if loads[0].get(name) != loads[1].get(name)]
    own_fields, usual_fields = (", ".join(f"{name} {load.get(name)}" for name in fields) for load in loads)
    return own_fields, usual_fields


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _changed_facts(study: Study, host: str, before: Any, after: Any) -> Iterator[RuleHit]:
    """Yield a doubt for each fact of a host, except its boot, that changed in the run by more than its kind allows."""
    if after is None:
        yield not_checked("facts_differ", "the facts of the host were not read again after the run", host=host)
        return
    declared = {factor.var or name for name, factor in study.factors.items()} | {"boot_id"}
    for name, old, new, _ in fact_differences(before, after, study.validity.facts_tolerance):
        if name.rpartition(".")[2] not in declared:
            observation = f"{name} of {host} was {_shorten(old)} before the run and {_shorten(new)} after it"
            yield rule_hit("facts_differ", "doubt", observation, host=host)


def service_warnings(records: Sequence[TrialRecord], facts: Mapping[str, Any]) -> Iterator[RuleHit]:
    """Doubt a run whose services wrote warnings into their logs: each line once, with the treatments that have it.

    No server says that its accept queue is shorter than asked for, as the kernel allows no longer one (listen(2)).
    `facts` as in `facts_differ`.
    """
    treatments: dict[tuple[str, str], dict[str, None]] = {}
    for record in records:
        for service in record.services:
            allowed = fact_before(facts, service.host, "net.core.somaxconn")
            lines_of = [f"logged \u201c{line}\u201d" for line in service.warnings]
            if service.backlog and isinstance(allowed, int) and service.backlog > allowed:
                lines_of.append(f"has an accept queue of {allowed:,} (net.core.somaxconn), not of {service.backlog:,},")
            for line in lines_of:
                treatments.setdefault((f"{service.role}: {service.service}", line), {})[record.treatment] = None
    lines = [
        f"{service} {line} in {', '.join(shorten_list(list(names), MAX_NAMED_TREATMENTS))}"
        for (service, line), names in sorted(treatments.items())
    ]
    if lines:
        yield rule_hit("service_warnings", "doubt", "; ".join(shorten_list(lines, MAX_WARNINGS)))


def more_workers_than_cpus(study: Study, records: Sequence[TrialRecord], facts: Mapping[str, Any]) -> Iterator[RuleHit]:
    """Doubt a run in which a server chose more workers than the CPUs it was given, once with all such treatments.

    A number that the study has chosen is not judged. `facts` as in `facts_differ`.
    """
    most: dict[
        tuple[str, str, str, float, str], int
    ] = {}  # a trial may have been looked at before the last one came up
    for record in records:
        for service in record.services:
            workers = service.workers
            quota = study.setting(record.treatment, service.role).cpu_quota if service.role in study.roles else None
            host_quota = host_cpu_quota(facts, service.host)
            cpus = min((given for given in (len(service.cpus), quota, host_quota) if given), default=None)
            if workers and workers.automatic and cpus is not None and workers.count > ceil(cpus):
                group = service.role, service.service, workers.setting, cpus, record.treatment
                most[group] = max(workers.count, most.get(group, 0))
    treatments: dict[tuple[str, str], dict[str, None]] = {}
    for (role, name, setting, cpus, treatment), count in most.items():
        has = f"{role}: {name} has {count} workers on {f'{cpus:g} CPUs' if cpus != 1 else '1 CPU'}"
        treatments.setdefault((has, f"{setting} = {ceil(cpus)} would fit"), {})[treatment] = None
    lines = [
        f"{has} in {', '.join(shorten_list(list(names), MAX_NAMED_TREATMENTS))} ({fitting})"
        for (has, fitting), names in sorted(treatments.items())
    ]
    if lines:
        yield rule_hit("more_workers_than_cpus", "doubt", "; ".join(shorten_list(lines, MAX_WARNINGS)))


def state_grew_within_block(study: Study, records: Sequence[TrialRecord]) -> Iterator[RuleHit]:
    """Compare the state of each host before a trial with its state before the first trial of the block."""
    for _, block in groupby(sorted(records, key=attrgetter("block", "slot")), key=attrgetter("block")):
        first, *others = block
        for record in others:
            for host in record.reset:
                yield from _exceeded_limits(study, record, host, first.reset.get(host, {}))


def _exceeded_limits(
    study: Study, record: TrialRecord, host: str, block_start: Mapping[str, float]
) -> Iterator[RuleHit]:
    state, limits, boot = record.reset[host], study.validity, record.boot_ids.get(host)
    # hosts with the same boot id are one machine, whose CPUs are known from all their masks
    monitors = [m for m in record.monitors if m.host == host or (boot and record.boot_ids.get(m.host) == boot)]
    machine_cpus = {cpu for monitor in monitors for cpu in monitor.cpus}
    for name, description, allowed in (
        ("time_wait", "sockets in TIME-WAIT", limits.time_wait_increase),
        ("conntrack", "conntrack entries", limits.rest_conntrack),
        ("open_files", "open files", limits.rest_open_files),
        ("load1", "load", limits.rest_load * max(1, len(machine_cpus))),
    ):
        if name in block_start and state.get(name, 0.0) - block_start[name] > allowed:
            observation = f"{state[name]:,.6g} {description} before the trial"
            observation += f", {block_start[name]:,.6g} at the start of block {record.block}"
            yield rule_hit("not_at_rest", "doubt", observation, record, host=host)
