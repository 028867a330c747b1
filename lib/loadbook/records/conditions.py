"""What two runs do not share: the recorded conditions in which they differ. Records in, values out.

Hosts are told apart by their place, which is a role ("web", and "web 2" where there are several), so that a run on
other hosts has the places of the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from loadbook.design.study import Study

Fact = Mapping[str, Any]  # "value" and "kind", see hosts/facts
About = Literal["run", "study", "treatment", "host", "version", "fact", "loadbook"]

TOLERATED = 0.02
BEFORE = "-before"
REBOOTED, MACHINE = "boot_id", "machine"  # facts that tell which machine it was: their values are for no page
# what of a study is words, or names treatments that the plan names anyway
NOT_CONDITIONS = frozenset(
    {"schema_version", "name", "question", "background", "notebooks", "published", "subset", "subsets", "seed"}
    | {"blocks", "factors", "factorial", "grid", "treatments"}
)
# what of a study says how much the servers get to do; the rest says how a run is judged
LOAD = ("workload", "roles")
LOOPBACK = "loopback"  # the first kind of lab, which records called true
LONGEST = 200  # letters of a value; what is longer is a file


class Difference(NamedTuple):
    """A fact that changed; `kind` as in the facts."""

    name: str
    before: str | float | None
    after: str | float | None
    kind: str


class Change(NamedTuple):
    """One recorded condition of two runs.

    `where` are the places of the hosts, none for the run as a whole. None as a value: not there, or not recorded.
    `identity` conditions must agree before rates of the two runs may stand side by side.
    """

    about: About
    name: str
    before: Any
    after: Any
    where: tuple[str, ...] = ()
    identity: bool = True


class Recorded(Protocol):
    """What is read of a run (`records.rundata.RunData` is one); `facts` by file, ``web-before``."""

    @property
    def study(self) -> Study: ...  # noqa: D102
    @property
    def plan(self) -> dict[str, Any]: ...  # noqa: D102
    @property
    def run_json(self) -> dict[str, Any]: ...  # noqa: D102
    @property
    def facts(self) -> dict[str, dict[str, Any]]: ...  # noqa: D102


class Record(NamedTuple):
    """The record of a run without its tables (`records.rundata.read_record`)."""

    study: Study
    plan: dict[str, Any]
    run_json: dict[str, Any]
    facts: dict[str, dict[str, Any]]


def changes(older: Recorded, newer: Recorded) -> list[Change]:
    """Return what is recorded otherwise of the newer run: the run, its study, treatments, hosts, versions, facts.

    What one of the runs was never asked for (its loadbook knew no such fact) is no change; facts of kind "info" never
    are. A reboot is told and breaks no identity: kernel and hardware have facts of their own.
    """
    return [
        *_values("run", _run(older), _run(newer), told=("replay of", "blocks", "blocks added")),
        *_study(older.study, newer.study),
        *_treatments(older, newer),
        *_together(_of_hosts(older, newer)),
        *_values("loadbook", _loadbook(older.run_json), _loadbook(newer.run_json), told=("loadbook",)),
    ]


def contrast(study: Study, treatment: str, against: str) -> dict[str, tuple[Any, Any]]:
    """Return what sets a treatment apart from another: factor, or field of the load -> (the other's, its own)."""
    ours, theirs = ({**study.levels_of(n), **_load(study, n)} for n in (treatment, against))
    return {name: (theirs.get(name), ours[name]) for name in ours if ours[name] != theirs.get(name)}


def differences(
    before: Mapping[str, Fact], after: Mapping[str, Fact], tolerated: float = TOLERATED
) -> list[Difference]:
    """Return the facts of a host that differ by more than their kind allows; "info" facts never do."""
    found = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, {}).get("value"), after.get(name, {}).get("value")
        kind = str((after.get(name) or before[name]).get("kind"))
        if kind != "info" and old != new and not (kind == "tolerance" and _close(old, new, tolerated)):
            found.append(Difference(name, old, new, kind))
    return found


def _close(old: Any, new: Any, tolerated: float) -> bool:
    numbers = isinstance(old, int | float) and isinstance(new, int | float)
    return numbers and abs(float(new) - float(old)) <= tolerated * abs(float(old))


def _run(record: Recorded) -> dict[str, Any]:
    run = record.run_json
    return {
        "replay of": run.get("replay"),
        "imported from": (run.get("imported") or {}).get("folder"),
        "lab": LOOPBACK if run.get("lab") is True else run.get("lab") or None,
        "delay": run.get("delay"),
        "blocks": record.plan["blocks"],
        "blocks added": record.plan.get("added") or None,
    }


def _loadbook(run: dict[str, Any]) -> dict[str, Any]:
    revision = (run.get("git_revision") or "")[:12]
    dirty = " (with changes)" if run.get("git_dirty") else ""
    return {"loadbook": f"{run['loadbook_version']}{f', revision {revision}{dirty}' if revision else ''}"}


def _study(older: Study, newer: Study) -> Iterator[Change]:
    old, new = (dict(_leaves(study.model_dump(mode="json", exclude=set(NOT_CONDITIONS)))) for study in (older, newer))
    for change in _values("study", old, new):
        yield change._replace(identity=change.name.startswith(LOAD))


def _treatments(older: Recorded, newer: Recorded) -> Iterator[Change]:
    ours, theirs = older.plan["treatments"], newer.plan["treatments"]
    for name in dict.fromkeys([*ours, *theirs]):
        if name in ours and name in theirs:
            old, new = _sets(older.study, name), _sets(newer.study, name)
            yield from (c._replace(name=f"{name}: {c.name}") for c in _values("treatment", old, new))
        else:
            there = ["there" if name in arms else None for arms in (ours, theirs)]
            yield Change("treatment", name, there[0], there[1], identity=False)


def _sets(study: Study, name: str) -> dict[str, Any]:
    """Return what a treatment itself sets."""
    spec = study.treatments[study.treatments[name].same_as or name]
    return dict(spec.set) | {f"workload.{key}": value for key, value in spec.workload.items()}


def _load(study: Study, name: str) -> dict[str, Any]:
    return dict(_leaves({"workload": study.workload_of(name).model_dump(mode="json")}))


def _of_hosts(older: Recorded, newer: Recorded) -> Iterator[Change]:
    ours, theirs = _places(older.run_json), _places(newer.run_json)
    for place in dict.fromkeys([*ours, *theirs]):
        if place in ours and place in theirs:
            for change in _of_host(older, ours[place], newer, theirs[place]):
                yield change._replace(where=(place,))
        else:
            yield Change("host", "host", ours.get(place), theirs.get(place), (place,))


def _places(run: dict[str, Any]) -> dict[str, str]:
    """Return place -> host of a run, in the order in which its roles appear."""
    by_role: dict[str, list[str]] = {}
    for alias, host in run["hosts"].items():
        for role in host["roles"]:
            by_role.setdefault(role, []).append(alias)
    return {
        role if number == 1 else f"{role} {number}": alias
        for role, aliases in by_role.items()
        for number, alias in enumerate(sorted(aliases), 1)
    }


def _of_host(older: Recorded, ours: str, newer: Recorded, theirs: str) -> Iterator[Change]:
    one, other = older.run_json, newer.run_json
    yield from _values("host", {"host": ours}, {"host": theirs}, told=("host",))
    yield from _values("host", _cpus(one, ours), _cpus(other, theirs))
    yield from _values("version", _versions(one, ours), _versions(other, theirs))
    old, new = older.facts.get(ours + BEFORE), newer.facts.get(theirs + BEFORE)
    if old and new:
        yield from _facts(old, new)
    elif old or new:
        yield Change("fact", "facts of the host", "recorded" if old else None, "recorded" if new else None)


def _cpus(run: dict[str, Any], alias: str) -> dict[str, str | None]:
    cpus = run["hosts"][alias].get("cpus")
    return {"CPUs in use": None if cpus is None else ", ".join(map(str, cpus))}


def _versions(run: dict[str, Any], alias: str) -> dict[str, str]:
    """Return tool or service -> version on a host."""
    kinds = (run.get(kind) or {} for kind in ("tool_versions", "service_versions"))
    said = [words.partition(" ") for known in kinds for words in (known.get(alias) or "").split(", ") if words]
    return {name: version for name, _, version in said}


def _facts(old: Mapping[str, Fact], new: Mapping[str, Fact]) -> Iterator[Change]:
    asked = [name for name in old if isinstance(old[name], dict) and isinstance(new.get(name), dict)]
    for found in differences({n: old[n] for n in asked}, {n: new[n] for n in asked}):
        yield Change("fact", found.name, found.before, found.after, (), found.name != REBOOTED)


def _values(
    about: About, old: Mapping[str, Any], new: Mapping[str, Any], told: tuple[str, ...] = ()
) -> Iterator[Change]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield Change(about, name, old.get(name), new.get(name), (), name not in told)


def _together(found: Iterator[Change]) -> list[Change]:
    """Return the changes with those that are alike at several places told once."""
    alike: dict[str, Change] = {}
    for change in found:
        key = repr(change._replace(where=()))
        alike[key] = change._replace(where=(alike[key].where if key in alike else ()) + change.where)
    return sorted(alike.values(), key=lambda c: ("host", "version", "fact").index(c.about))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value below nested tables with its path, a list as text, a whole file as its sha256."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        yield path, ", ".join(map(str, value)) or None
    elif isinstance(value, str) and len(value) > LONGEST:
        yield path, f"sha256 {hashlib.sha256(value.encode()).hexdigest()[:12]}"
    else:
        yield path, value
