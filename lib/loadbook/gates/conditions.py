"""Rules about recorded conditions: the same in all trials that are compared, and back to rest before each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from loadbook.design.study import Study
from loadbook.gates.base import Hit, message
from loadbook.records.conditions import differences
from loadbook.records.manifest import TrialRecord

# host, what else the value belongs to (its tool, its treatment) -> value
Known = Mapping[tuple[str | None, str], str | None]
BEFORE, AFTER = "-before", "-after"
# state of a host (trials/reset) -> words, threshold
LEVELS = {
    "time_wait": ("sockets in TIME-WAIT", "rest_time_wait"),
    "conntrack": ("conntrack entries", "rest_conntrack"),
    "open_files": ("open files", "rest_open_files"),
    "load1": ("load", "rest_load"),
}


def facts_differ(study: Study, records: Sequence[TrialRecord], facts: Mapping[str, Any]) -> Iterator[Hit]:
    """Find recorded conditions that no factor declares and that differ between trials, or before and after the run.

    Parameters
    ----------
    facts : what the hosts told (hosts/facts) under ``<host>-before`` and ``<host>-after``.
    """
    for what, values in _recorded(records).items():
        yield from _changes(what, values)
    if records and not facts and not any(r.boot_ids or r.services for r in records):
        yield Hit("facts_differ", "unchecked", None, None, None, "not checked: no facts of any host were recorded")
    for name in facts:
        if name.endswith(BEFORE):
            host = name.removesuffix(BEFORE)
            yield from _host_changes(study, host, facts[name], facts.get(host + AFTER))


def _recorded(records: Sequence[TrialRecord]) -> dict[str, list[tuple[TrialRecord, Known]]]:
    """Return, for each way in which a trial can be unlike the others, what each trial has."""
    found: dict[str, list[tuple[TrialRecord, Known]]] = {}
    for r in records:
        drivers, arm = [driver.host for driver in r.drivers], f"treatment {r.treatment}"
        load = json.dumps(r.workload, sort_keys=True)
        ways: dict[str, Known] = {
            "was rebooted": {(host, ""): boot for host, boot in r.boot_ids.items()},
            "ran another version of the tool": {(host, r.tool): r.tool_version for host in drivers},
            "ran another version of the service": {(s.host, s.service): s.version for s in r.services},
            "had another CPU mask": {(m.host, ""): ",".join(map(str, m.cpus)) or None for m in r.monitors},
            "ran another configuration of the treatment": {(s.host, s.role + arm): s.config_sha256 for s in r.services},
            "was given another load": dict.fromkeys(((host, arm) for host in drivers), load),
            "was answered by another server": {(host, arm): _server(r) for host in drivers},
        }
        for what, known in ways.items():
            found.setdefault(what, []).append((r, known))
    return found


def _server(record: TrialRecord) -> str | None:
    return record.response_before.server if record.response_before else None


def _changes(what: str, values: Sequence[tuple[TrialRecord, Known]]) -> Iterator[Hit]:
    """Yield a doubt on each trial whose value differs from the one that most trials have."""
    told: dict[tuple[str | None, str], list[tuple[TrialRecord, str]]] = {}
    for record, known in values:
        for key, value in known.items():
            if value is not None:
                told.setdefault(key, []).append((record, value))
    for (host, _), trials in told.items():
        usual = Counter(value for _, value in trials).most_common(1)[0][0]
        for record, value in trials:
            if value != usual:
                one, other = _unlike(value, usual)
                seen = f"{host} {what} ({_brief(one)}, {_brief(other)} in most trials)"
                yield Hit("facts_differ", "doubt", record.trial, record.treatment, host, message("facts_differ", seen))


def _unlike(value: str, usual: str) -> tuple[str, str]:
    """Return two values; of two loads only the fields that differ."""
    if not value.startswith("{"):
        return value, usual
    loads = json.loads(value), json.loads(usual)
    fields = [name for name in loads[0] | loads[1] if loads[0].get(name) != loads[1].get(name)]
    one, other = (", ".join(f"{name} {load.get(name)}" for name in fields) for load in loads)
    return one, other


def _brief(value: str | None) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _host_changes(study: Study, host: str, before: Any, after: Any) -> Iterator[Hit]:
    """Yield a doubt on the run for each fact that changed more than its kind allows; boots are judged by trial."""
    if after is None:
        lacking = "not checked: the facts of the host were not read again after the run"
        yield Hit("facts_differ", "unchecked", None, None, host, lacking)
        return
    declared = {factor.var or name for name, factor in study.factors.items()} | {"boot_id"}
    for name, old, new, _ in differences(before, after, study.gates.facts_tolerance):
        if name.rpartition(".")[2] not in declared:
            seen = f"{name} of {host} was {_brief(str(old))} before the run and {_brief(str(new))} after it"
            yield Hit("facts_differ", "doubt", None, None, host, message("facts_differ", seen))


def not_back_at_start(study: Study, records: Sequence[TrialRecord]) -> Iterator[Hit]:
    """Compare each host's state before a trial with that before the first trial of its block."""
    for _, block in groupby(sorted(records, key=attrgetter("block", "slot")), key=attrgetter("block")):
        first, *others = block
        for record in others:
            for host, state in record.reset.items():
                yield from _grown(study, record, host, first.reset.get(host, {}), state)


def _grown(
    study: Study, record: TrialRecord, host: str, start: Mapping[str, float], state: Mapping[str, float]
) -> Iterator[Hit]:
    for name, (words, key) in LEVELS.items():
        allowed = getattr(study.gates, key) * (_cpus(record, host) if name == "load1" else 1)
        if name in start and state.get(name, 0.0) - start[name] > allowed:
            seen = (
                f"{state[name]:,.6g} {words} before the trial, {start[name]:,.6g} at the start of block {record.block}"
            )
            yield Hit("not_at_rest", "doubt", record.trial, record.treatment, host, message("not_at_rest", seen))


def _cpus(record: TrialRecord, host: str) -> int:
    """Return how many CPUs of the host's machine are known: the masks of all hosts that were booted with it."""
    boot = record.boot_ids.get(host)
    own = [m for m in record.monitors if m.host == host or (boot and record.boot_ids.get(m.host) == boot)]
    return max(1, len({cpu for monitor in own for cpu in monitor.cpus}))
