"""run.json (time, hosts, versions, prices, lab of a run), and recorded conditions in which two runs differ.

Conditions are study, treatments, hosts, versions and facts. Hosts are named by role ("web", and "web 2" for a second
one), so that runs on different hosts can be compared.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from loadbook.core.errors import DataError
from loadbook.store.paths import RunPaths
from loadbook.store.trial_record import RESTORE_HINT, SCHEMA_VERSION, write_json
from loadbook.study.model import Study
from loadbook.study.plan import Plan


class RecordedHost(BaseModel):
    """One host of a run: its roles, the CPUs that it could use (None: all), the rate of its network link (Mbit/s)."""

    model_config = ConfigDict(extra="allow")

    roles: list[str]
    cpus: list[int] | None = None
    link_mbit: float | None = None


class RecordedPrices(BaseModel):
    """Prices per month, by host and by external role, in `currency`."""

    model_config = ConfigDict(extra="allow")

    currency: str = ""
    hosts: dict[str, float] = {}
    external: dict[str, float] = {}


class ImportSource(BaseModel):
    """Origin of an imported run: names of the folder and of the file of conditions, time of the import.

    `at` is the time of the import (epoch s). `timed` is true if the times of its trials are known, `times_given` if
    the file of conditions has them all; else they are those in the outputs.
    """

    model_config = ConfigDict(extra="allow")

    at: float = 0.0
    timed: bool = False
    times_given: bool = True
    folder: str | None = None
    conditions: str | None = None


class RunRecord(BaseModel):
    """Content of run.json; fields that older versions of loadbook did not record have defaults.

    Attributes
    ----------
    started, ended : epoch seconds on the controller's clock; `ended` is None until the run is done.
    git_revision, git_dirty : state of the project's git checkout; None if it is not in git.
    seed : seed of the order of trials; None if loadbook did not draw it.
    hosts : alias -> host.
    tool_versions, service_versions : host -> "name version, name version".
    hosts_file : hosts file as the user named it; None for the default, that of the lab, and in old records.
    delay : tool that delayed packets, "kernel" or "userspace"; None if no delay was requested.
    lab : kind of the lab, "" or False for other hosts; True (old records) means the first kind of lab.
    replay : run that was replayed; None for a measured run.
    resumed : number of times that the run was resumed.
    provenance : "imported" for results that others measured.
    """

    model_config = ConfigDict(extra="allow")

    study: str
    run: str
    subset: str | None = None
    schema_version: int = SCHEMA_VERSION
    started: float
    ended: float | None = None
    loadbook_version: str
    git_revision: str | None = None
    git_dirty: bool | None = None
    study_sha256: str = ""
    seed: int | None = None
    blocks: int = 0
    hosts: dict[str, RecordedHost]
    prices: RecordedPrices | None = None
    tool_versions: dict[str, str] = {}
    service_versions: dict[str, str] = {}
    delay: str | None = None
    lab: bool | str = False
    hosts_file: str | None = None
    replay: str | None = None
    resumed: int = 0
    provenance: str | None = None
    imported: ImportSource | None = None

    @property
    def lab_kind(self) -> str:
        """Return the kind of the lab, such as "loopback"; "" for hosts outside a lab."""
        return "loopback" if self.lab is True else self.lab or ""

    @property
    def is_finished(self) -> bool:
        """Return whether the run is done, or was imported."""
        return self.ended is not None or self.imported is not None

    @property
    def run_command(self) -> str:
        """Return the command that runs the study on these hosts, and that resumes the run if it is not finished."""
        hosts = [] if self.lab and not self.hosts_file else ["--hosts", self.hosts_file or "FILE"]
        return shlex.join(["loadbook", "run", self.study, *hosts])

    def to_json(self) -> dict[str, Any]:
        """Return the content of run.json without defaults, so that writing a record again changes nothing."""
        return self.model_dump(mode="json", exclude_unset=True)


def read_run_record(paths: RunPaths) -> RunRecord:
    """Read run.json; DataError if it is missing or not the record of a run."""
    try:
        return RunRecord.model_validate_json(paths.run_json.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{paths.run_json} is not there", RESTORE_HINT) from None
    except ValueError as error:  # includes ValidationError
        errors = error.errors()[:3] if isinstance(error, ValidationError) else []
        reason = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in errors) or str(error)
        raise DataError(f"{paths.run_json} is no record of a run: {reason}", RESTORE_HINT) from error


def write_run_record(paths: RunPaths, record: RunRecord) -> None:
    """Write run.json, completely or not at all."""
    write_json(paths.run_json, record.to_json())


Fact = Mapping[str, Any]  # keys "value" and "kind", see hosts/facts
ChangeCategory = Literal["run", "study", "treatment", "host", "version", "fact", "loadbook"]

FACT_TOLERANCE = 0.02
BEFORE_SUFFIX, AFTER_SUFFIX = "-before", "-after"  # endings of the names of files with facts
# facts that identify a machine; pages do not show them
BOOT_ID_FACT, MACHINE_FACT = "boot_id", "machine"
# fields of a study that are only texts, or names of treatments, which the plan contains, too
NON_CONDITION_KEYS = frozenset(
    {"schema_version", "name", "question", "background", "notebooks", "published", "subset", "subsets", "seed"}
    | {"blocks", "factors", "factorial", "grid", "treatments"}
)
# fields of a study that determine the load on the servers; the others determine how a run is judged
LOAD_KEYS = ("workload", "roles", "execution")
MAX_VALUE_LENGTH = 200  # characters; a longer value is the content of a file


class FactDifference(NamedTuple):
    """A fact of a host that changed; a value is None if the fact was not recorded.

    `kind` is that of the fact, such as "identity", or "tolerance" for a number of which small changes do not count.
    """

    name: str
    before: str | float | None
    after: str | float | None
    kind: str


class ConditionChange(NamedTuple):
    """One recorded condition in which two runs differ.

    `host_roles` names the hosts; it is empty for a condition of the whole run. A value is None if it does not exist or
    was not recorded. `prevents_comparison`: rates of the two runs cannot be compared if this condition differs.
    """

    category: ChangeCategory
    name: str
    before: Any
    after: Any
    host_roles: tuple[str, ...] = ()
    prevents_comparison: bool = True


@dataclass(frozen=True)
class RunConditions:
    """Recorded conditions of a run, without its tables.

    `plan` has the changes in the ledger applied; `facts` maps names of files (``web-before``: host, and before or
    after the run) to facts: name -> a mapping with the keys "value" and "kind".
    """

    study: Study
    plan: Plan
    run_record: RunRecord
    facts: dict[str, dict[str, Any]]


def condition_changes(older: RunConditions, newer: RunConditions) -> list[ConditionChange]:
    """Return the recorded conditions in which the newer run differs from the older.

    A fact that only one run recorded (older versions of loadbook record fewer) and facts of kind "info" are not
    changes. A reboot does not prevent a comparison, since kernel and hardware have their own facts.
    """
    informative, excluded = ("replay of", "blocks", "blocks added"), set(NON_CONDITION_KEYS)
    old, new = (dict(_flattened(r.study.model_dump(mode="json", exclude=excluded))) for r in (older, newer))
    return [
        *_value_changes("run", _run_conditions(older), _run_conditions(newer), informative),
        *(c._replace(prevents_comparison=c.name.startswith(LOAD_KEYS)) for c in _value_changes("study", old, new)),
        *_treatment_changes(older, newer),
        *_hosts_changes(older, newer),
        *_value_changes("loadbook", _loadbook_version(older), _loadbook_version(newer), informative=("loadbook",)),
    ]


def treatment_contrast(study: Study, treatment: str, against: str) -> dict[str, tuple[Any, Any]]:
    """Return the settings in which `treatment` differs from `against`: name -> (value of `against`, of `treatment`).

    A name is a factor, or a field of the load such as "workload.connections".
    """
    loads = (dict(_flattened({"workload": study.workload_of(n).model_dump(mode="json")})) for n in (treatment, against))
    own_values, other_values = (study.levels_of(n) | load for n, load in zip((treatment, against), loads, strict=True))
    pairs = {name: (other_values.get(name), own) for name, own in own_values.items()}
    return {name: (other, own) for name, (other, own) in pairs.items() if own != other}


def fact_before(facts: Mapping[str, Any], alias: str, name: str) -> Any:
    """Return the value of a fact of a host before the run; None if it is not known.

    `facts` maps ``<alias>-before`` to facts: name -> a mapping with the key "value".
    """
    return facts.get(alias + BEFORE_SUFFIX, {}).get(name, {}).get("value")


def host_cpu_quota(facts: Mapping[str, Any], alias: str) -> float | None:
    """Return the CPU quota of a host's login in CPUs, by its facts before the run; None if it has none.

    `facts` as in `fact_before`.
    """
    value = fact_before(facts, alias, "cpu_quota")
    return float(value) if isinstance(value, (int, float)) else None


def fact_differences(
    before: Mapping[str, Fact], after: Mapping[str, Fact], tolerance: float = FACT_TOLERANCE
) -> list[FactDifference]:
    """Return the facts of a host that differ by more than their kind allows; "info" facts may always differ.

    A fact is a mapping with the keys "value" and "kind". Numbers of the kind "tolerance" differ if they changed by
    more than `tolerance` times the value before; a fact in only one of the mappings differs, too.
    """
    differing = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, {}).get("value"), after.get(name, {}).get("value")
        kind, within = str((after.get(name) or before[name]).get("kind")), False
        if kind == "tolerance" and isinstance(old, int | float) and isinstance(new, int | float):
            within = abs(float(new) - float(old)) <= tolerance * abs(float(old))
        if kind != "info" and old != new and not within:
            differing.append(FactDifference(name, old, new, kind))
    return differing


def _run_conditions(record: RunConditions) -> dict[str, Any]:
    run = record.run_record
    return {
        "replay of": run.replay,
        "imported from": run.imported.folder if run.imported else None,
        "lab": run.lab_kind or None,
        "delay": run.delay,
        "blocks": record.plan.blocks,
        "blocks added": record.plan.added or None,
    }


def _loadbook_version(known: RunConditions) -> dict[str, Any]:
    run = known.run_record
    revision = (run.git_revision or "")[:12]
    dirty = " (with changes)" if run.git_dirty else ""
    return {"loadbook": f"{run.loadbook_version}{f', revision {revision}{dirty}' if revision else ''}"}


def _treatment_changes(older: RunConditions, newer: RunConditions) -> Iterator[ConditionChange]:
    older_arms, newer_arms = older.plan.treatments, newer.plan.treatments
    for name in dict.fromkeys([*older_arms, *newer_arms]):
        if name in older_arms and name in newer_arms:
            old, new = _treatment_settings(older.study, name), _treatment_settings(newer.study, name)
            yield from (c._replace(name=f"{name}: {c.name}") for c in _value_changes("treatment", old, new))
        else:
            before, after = ("there" if name in arms else None for arms in (older_arms, newer_arms))
            yield ConditionChange("treatment", name, before, after, prevents_comparison=False)


def _treatment_settings(study: Study, name: str) -> dict[str, Any]:
    """Return the settings of a treatment, without those of the study."""
    spec = study.treatments[study.treatments[name].same_as or name]
    return dict(spec.set) | {f"workload.{key}": value for key, value in spec.workload.items()}


def _hosts_changes(older: RunConditions, newer: RunConditions) -> list[ConditionChange]:
    """Return the changes of all hosts, joined into one if several hosts have the same change."""
    older_hosts, newer_hosts = _host_by_role(older.run_record), _host_by_role(newer.run_record)
    merged: dict[str, ConditionChange] = {}
    for host_role in dict.fromkeys([*older_hosts, *newer_hosts]):
        old, new = older_hosts.get(host_role), newer_hosts.get(host_role)
        changes = [ConditionChange("host", "host", old, new)]
        if old is not None and new is not None:
            changes = list(_host_changes(older, old, newer, new))
        for change in changes:
            host_roles = merged[repr(change)].host_roles if repr(change) in merged else ()
            merged[repr(change)] = change._replace(host_roles=(*host_roles, host_role))
    return sorted(merged.values(), key=lambda c: ("host", "version", "fact").index(c.category))


def _host_by_role(run: RunRecord) -> dict[str, str]:
    """Return role ("web 2" for a role's second host) -> host of a run, in the order in which roles appear."""
    by_role: dict[str, list[str]] = {}
    for alias, host in run.hosts.items():
        for role in host.roles:
            by_role.setdefault(role, []).append(alias)
    return {
        role if number == 1 else f"{role} {number}": alias
        for role, aliases in by_role.items()
        for number, alias in enumerate(sorted(aliases), 1)
    }


def _host_changes(
    older: RunConditions, older_host: str, newer: RunConditions, newer_host: str
) -> Iterator[ConditionChange]:
    older_run, newer_run = older.run_record, newer.run_record
    yield from _value_changes("host", {"host": older_host}, {"host": newer_host}, informative=("host",))
    cpus = [run.hosts[host].cpus for run, host in ((older_run, older_host), (newer_run, newer_host))]
    old_cpus, new_cpus = ({"CPUs in use": None if c is None else ", ".join(map(str, c))} for c in cpus)
    yield from _value_changes("host", old_cpus, new_cpus)
    yield from _value_changes("version", _versions(older_run, older_host), _versions(newer_run, newer_host))
    old, new = older.facts.get(older_host + BEFORE_SUFFIX), newer.facts.get(newer_host + BEFORE_SUFFIX)
    if old and new:
        names = [name for name in old if isinstance(old[name], dict) and isinstance(new.get(name), dict)]
        for name, before, after, _ in fact_differences({n: old[n] for n in names}, {n: new[n] for n in names}):
            yield ConditionChange("fact", name, before, after, (), name != BOOT_ID_FACT)
    elif old or new:
        yield ConditionChange("fact", "facts of the host", "recorded" if old else None, "recorded" if new else None)


def _versions(run: RunRecord, alias: str) -> dict[str, str]:
    """Return tool or service -> version on a host."""
    kinds = (run.tool_versions, run.service_versions)
    parts = [text.partition(" ") for versions in kinds for text in (versions.get(alias) or "").split(", ") if text]
    return {name: version for name, _, version in parts}


def _value_changes(
    category: ChangeCategory, old: Mapping[str, Any], new: Mapping[str, Any], informative: tuple[str, ...] = ()
) -> Iterator[ConditionChange]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield ConditionChange(category, name, old.get(name), new.get(name), (), name not in informative)


def _flattened(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value in nested tables with its path; a list becomes text, a file's content its sha256."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flattened(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        yield path, ", ".join(map(str, value)) or None
    elif isinstance(value, str) and len(value) > MAX_VALUE_LENGTH:
        yield path, f"sha256 {hashlib.sha256(value.encode()).hexdigest()[:12]}"
    else:
        yield path, value
