"""What runs recorded on these hosts say about their noise: files only, no host is asked.

A run tells of noise where one configuration ran under two names (the baseline and its A/A arm); where none did, the
scatter of each treatment's ratio to the baseline around its own median stands in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import LoadbookError
from loadbook.design.plan import Plan, read_plan
from loadbook.design.study import Study
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.lab_plan import lab_kind
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.manifest import read_json
from loadbook.records.rundata import trial_values
from loadbook.records.schema import read_table

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from loadbook.stats.hygiene.within import Series

MIN_BLOCKS = 5
ENOUGH_PAIRS = 60
NEWEST = 50  # runs that are looked at; noise of long ago says little
# facts that make a host another one
IDENTITY = ("machine", "cpu_model", "cores")
SAME_LOAD, SAME_TOOL, OTHER = 2, 1, 0
# what may differ between two loads that count as alike
UNLIKE_LOAD = {"role", "target", "warmup_s", "timeout_s", "expect_status", "expect_bytes"}


@dataclass(frozen=True)
class Recording:
    """The pairs of one run: logs of two trials of a block, alike but for noise; `aa` says whether truly alike."""

    study: str
    run: str
    alike: int
    aa: bool
    pairs: NDArray[Any]
    paths: RunPaths


def recordings(layout: Layout, plan: Plan, hosts: Path | None = None) -> list[Recording]:
    """Return what is known of the noise of a plan's metric on these hosts, newest first; empty if nothing is.

    Of runs on the same hosts (without a hosts file: of the lab) those with the load most like the plan's are taken,
    the newest first, until there are 60 pairs. Runs that were imported, played back or not ingested are left out.
    """
    known, pairs = _hosts(layout, hosts), 0
    found: list[Recording] = []
    for one in sorted(_read_all(layout, plan, known), key=lambda r: -r.alike):
        if found and (one.alike < found[0].alike or pairs >= ENOUGH_PAIRS):
            break
        found.append(one)
        pairs += len(one.pairs)
    return found


def inside(one: Recording) -> tuple[list[Series], float]:
    """Return the rates within the trials of the baseline, and the seconds that a trial costs beyond them."""
    import numpy as np

    from loadbook.stats.hygiene.within import series_of

    study = read_plan(read_json(one.paths.plan), str(one.paths.plan)).study
    trials = read_table(one.paths.table("trials"), "trials")
    ours = trials[trials["treatment"].isin(twins(study)) & trials["valid"]]
    rates = series_of(read_table(one.paths.table("samples"), "samples"))
    around = ours["duration_s"] - study.workload_of(study.baseline).duration_s
    overhead_s = float(np.nanmedian(around)) if around.notna().any() else 0.0
    return [rates[trial] for trial in ours["trial"] if trial in rates], max(overhead_s, 0.0)


def twins(study: Study) -> tuple[str, ...]:
    """Return the names under which the baseline's configuration runs, its own first."""
    return (study.baseline, *(name for name in study.treatments if study.repeats(name) == study.baseline))


def on_the_hosts_of(layout: Layout, paths: RunPaths) -> Iterator[RunPaths]:
    """Yield the newest runs that were recorded on the hosts of this one, itself among them, newest first."""
    run = read_json(paths.run_json)
    machines: dict[str, Any] = {}
    _same_machines(paths, machines)
    for other, study in _newest(layout):
        theirs = layout.run(study, other)
        try:
            said = read_json(theirs.run_json)
            ours = _kind(said) == _kind(run) and all(said.get(key) == run.get(key) for key in ("hosts", "replay"))
            if ours and not said.get("imported") and _same_machines(theirs, machines):
                yield theirs
        except LoadbookError:  # torn: it tells nothing
            continue


def _newest(layout: Layout) -> list[tuple[str, str]]:
    """Return run and study of the newest runs."""
    every = [(run, study) for study in layout.recorded() for run in layout.runs(study)]
    return sorted(every, reverse=True)[:NEWEST]


def _read_all(layout: Layout, plan: Plan, known: Mapping[str, Any] | None) -> Iterator[Recording]:
    machines: dict[str, Any] = {}
    for run, study in _newest(layout):
        paths = layout.run(study, run)
        try:
            if not _same_hosts(read_json(paths.run_json), known) or not _same_machines(paths, machines):
                continue
            theirs = read_plan(read_json(paths.plan), str(paths.plan)).study
            pairs, aa = _pairs(paths, theirs, plan.study.metric)
        except LoadbookError:  # torn, of another version, or not ingested: it tells nothing, and others may
            continue
        if len(pairs) >= MIN_BLOCKS and pairs.any():  # a single block, less its own median, is nothing
            yield Recording(study, run, _alike(plan.study, theirs), aa, pairs, paths)


def _hosts(layout: Layout, hosts: Path | None) -> Mapping[str, Any] | None:
    """Return roles and CPU mask by alias; None for a lab that has not been up yet."""
    file = hosts or layout.lab / "hosts.toml"
    if hosts is None and not file.is_file():
        return None
    entries = {a: {"roles": e.roles, "cpus": list(e.cpus or ())} for a, e in read_hosts(file).hosts.items()}
    return {"lab": lab_kind(file), "hosts": entries}


def _same_hosts(run: Mapping[str, Any], known: Mapping[str, Any] | None) -> bool:
    if run.get("imported") or run.get("replay") or not run.get("hosts"):
        return False
    if known is None:
        return _kind(run) == "loopback"
    entries = known["hosts"]
    return _kind(run) == known["lab"] and all(
        alias in entries
        and set(host["roles"]) <= set(entries[alias]["roles"])
        and (host["cpus"] or []) == entries[alias]["cpus"]
        for alias, host in run["hosts"].items()
    )


def _kind(run: Mapping[str, Any]) -> str:
    """Return the kind of lab of a run, "" for other hosts; True stands for the first kind that there was."""
    lab = run.get("lab")
    return lab if isinstance(lab, str) else "loopback" if lab else ""


def _same_machines(paths: RunPaths, machines: dict[str, Any]) -> bool:
    """Tell whether hosts are still the machines of the newest run, which `machines` keeps by alias."""
    seen = {}
    for path in sorted(paths.facts.glob("*-before.json")):
        facts = read_json(path)
        seen[path.name] = [facts.get(name, {}).get("value") for name in IDENTITY]
    same = all(machines.get(name, seen[name]) == seen[name] for name in seen)
    if same:
        machines |= seen
    return same


def _alike(ours: Study, theirs: Study) -> int:
    """Return how much two studies' loads are alike: SAME_LOAD with the same services, SAME_TOOL or OTHER."""
    loads = [study.workload_of(study.baseline) for study in (ours, theirs)]
    services = [{name: role.service for name, role in study.roles.items()} for study in (ours, theirs)]
    dumps = [load.model_dump(exclude=UNLIKE_LOAD) for load in loads]
    if dumps[0] == dumps[1] and services[0] == services[1]:
        return SAME_LOAD
    return SAME_TOOL if loads[0].tool == loads[1].tool else OTHER


def _pairs(paths: RunPaths, study: Study, metric: str) -> tuple[NDArray[Any], bool]:
    """Return the pairs of a run, each less the run's median, and whether both of a pair are one configuration."""
    import numpy as np

    trials, measurements = (read_table(paths.table(name), name) for name in ("trials", "measurements"))
    values = trial_values(trials, measurements, metric)
    ran, same = set(values["treatment"]), twins(study)
    again = [name for name in same[1:] if name in ran]
    others = again or [name for name in study.treatments if name in ran and name not in same]
    found = [_centred(values, name, study.baseline, aa=bool(again)) for name in others]
    return np.concatenate(found or [np.empty((0, 2))]), bool(again)


def _centred(values: pd.DataFrame, name: str, baseline: str, aa: bool) -> NDArray[Any]:
    """Return the pairs of one arm and the baseline less their median; arms that are not alike each less its own."""
    import numpy as np

    from loadbook.stats.pairs import pair

    paired = pair(values, name, baseline)
    arms = np.column_stack([paired.base, paired.other])
    return arms - np.median(arms, axis=None if aa else 0) if len(arms) else arms
