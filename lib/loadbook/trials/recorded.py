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
from loadbook.design.plan import Plan, parse_plan
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

    from loadbook.stats.hygiene.within import RateSeries

MIN_BLOCKS = 5
ENOUGH_PAIRS = 60
MAX_RUNS = 50  # runs that are looked at; noise of long ago says little
# facts that make a host another one
MACHINE_FACTS = ("machine", "cpu_model", "cores")
SAME_LOAD, SAME_TOOL, OTHER_TOOL = 2, 1, 0
# what may differ between two loads that count as alike
IGNORED_LOAD_KEYS = {"role", "target", "warmup_s", "timeout_s", "expect_status", "expect_bytes"}


@dataclass(frozen=True)
class NoiseSample:
    """The pairs of one run: logs of two trials of a block, alike but for noise; `aa` says whether truly alike."""

    study: str
    run: str
    similarity: int
    aa: bool
    pairs: NDArray[Any]
    paths: RunPaths


def noise_samples(layout: Layout, plan: Plan, hosts: Path | None = None) -> list[NoiseSample]:
    """Return what is known of the noise of a plan's metric on these hosts, newest first; empty if nothing is.

    Of runs on the same hosts (without a hosts file: of the lab) those with the load most like the plan's are taken,
    the newest first, until there are 60 pairs. Runs that were imported, played back or not ingested are left out.
    """
    hosts_known, pairs = _known_hosts(layout, hosts), 0
    samples: list[NoiseSample] = []
    for sample in sorted(_read_samples(layout, plan, hosts_known), key=lambda r: -r.similarity):
        if samples and (sample.similarity < samples[0].similarity or pairs >= ENOUGH_PAIRS):
            break
        samples.append(sample)
        pairs += len(sample.pairs)
    return samples


def within_trial_rates(sample: NoiseSample) -> tuple[list[RateSeries], float]:
    """Return the rates within the trials of the baseline, and the seconds that a trial costs beyond them."""
    import numpy as np

    from loadbook.stats.hygiene.within import rate_series

    study = parse_plan(read_json(sample.paths.plan_json), str(sample.paths.plan_json)).study
    trials = read_table(sample.paths.table("trials"), "trials")
    baseline_trials = trials[trials["treatment"].isin(aa_arms(study)) & trials["valid"]]
    rates = rate_series(read_table(sample.paths.table("samples"), "samples"))
    around = baseline_trials["duration_s"] - study.workload_of(study.baseline).duration_s
    overhead_s = float(np.nanmedian(around)) if around.notna().any() else 0.0
    return [rates[trial] for trial in baseline_trials["trial"] if trial in rates], max(overhead_s, 0.0)


def aa_arms(study: Study) -> tuple[str, ...]:
    """Return the names under which the baseline's configuration runs, its own first."""
    return (study.baseline, *(name for name in study.treatments if study.repeated_treatment(name) == study.baseline))


def runs_on_same_hosts(layout: Layout, paths: RunPaths) -> Iterator[RunPaths]:
    """Yield the newest runs that were recorded on the hosts of this one, itself among them, newest first."""
    run = read_json(paths.run_json)
    machines: dict[str, Any] = {}
    _same_machines(paths, machines)
    for other, study in _newest_runs(layout):
        other_paths = layout.run(study, other)
        try:
            other_run = read_json(other_paths.run_json)
            same_hosts = _lab_kind_of(other_run) == _lab_kind_of(run) and all(other_run.get(key) == run.get(key) for key in ("hosts", "replay"))
            if same_hosts and not other_run.get("imported") and _same_machines(other_paths, machines):
                yield other_paths
        except LoadbookError:  # torn: it tells nothing
            continue


def _newest_runs(layout: Layout) -> list[tuple[str, str]]:
    """Return run and study of the newest runs."""
    every = [(run, study) for study in layout.studies_with_runs() for run in layout.runs(study)]
    return sorted(every, reverse=True)[:MAX_RUNS]


def _read_samples(layout: Layout, plan: Plan, known_hosts: Mapping[str, Any] | None) -> Iterator[NoiseSample]:
    machines: dict[str, Any] = {}
    for run, study in _newest_runs(layout):
        paths = layout.run(study, run)
        try:
            if not _same_hosts(read_json(paths.run_json), known_hosts) or not _same_machines(paths, machines):
                continue
            other_study = parse_plan(read_json(paths.plan_json), str(paths.plan_json)).study
            pairs, aa = _noise_pairs(paths, other_study, plan.study.metric)
        except LoadbookError:  # torn, of another version, or not ingested: it tells nothing, and others may
            continue
        if len(pairs) >= MIN_BLOCKS and pairs.any():  # a single block, less its own median, is nothing
            yield NoiseSample(study, run, _load_similarity(plan.study, other_study), aa, pairs, paths)


def _known_hosts(layout: Layout, hosts: Path | None) -> Mapping[str, Any] | None:
    """Return roles and CPU mask by alias; None for a lab that has not been up yet."""
    file = hosts or layout.lab / "hosts.toml"
    if hosts is None and not file.is_file():
        return None
    entries = {a: {"roles": e.roles, "cpus": list(e.cpus or ())} for a, e in read_hosts(file).hosts.items()}
    return {"lab": lab_kind(file), "hosts": entries}


def _same_hosts(run: Mapping[str, Any], known_hosts: Mapping[str, Any] | None) -> bool:
    if run.get("imported") or run.get("replay") or not run.get("hosts"):
        return False
    if known_hosts is None:
        return _lab_kind_of(run) == "loopback"
    entries = known_hosts["hosts"]
    return _lab_kind_of(run) == known_hosts["lab"] and all(
        alias in entries
        and set(host["roles"]) <= set(entries[alias]["roles"])
        and (host["cpus"] or []) == entries[alias]["cpus"]
        for alias, host in run["hosts"].items()
    )


def _lab_kind_of(run: Mapping[str, Any]) -> str:
    """Return the kind of lab of a run, "" for other hosts; True stands for the first kind that there was."""
    lab = run.get("lab")
    return lab if isinstance(lab, str) else "loopback" if lab else ""


def _same_machines(paths: RunPaths, machines: dict[str, Any]) -> bool:
    """Tell whether hosts are still the machines of the newest run, which `machines` keeps by alias."""
    values = {}
    for path in sorted(paths.facts.glob("*-before.json")):
        facts = read_json(path)
        values[path.name] = [facts.get(name, {}).get("value") for name in MACHINE_FACTS]
    same = all(machines.get(name, values[name]) == values[name] for name in values)
    if same:
        machines |= values
    return same


def _load_similarity(first: Study, second: Study) -> int:
    """Return how much two studies' loads are alike: SAME_LOAD with the same services, SAME_TOOL or OTHER_TOOL."""
    loads = [study.workload_of(study.baseline) for study in (first, second)]
    services = [{name: role.service for name, role in study.roles.items()} for study in (first, second)]
    dumps = [load.model_dump(exclude=IGNORED_LOAD_KEYS) for load in loads]
    if dumps[0] == dumps[1] and services[0] == services[1]:
        return SAME_LOAD
    return SAME_TOOL if loads[0].tool == loads[1].tool else OTHER_TOOL


def _noise_pairs(paths: RunPaths, study: Study, metric: str) -> tuple[NDArray[Any], bool]:
    """Return the pairs of a run, each less the run's median, and whether both of a pair are one configuration."""
    import numpy as np

    trials, measurements = (read_table(paths.table(name), name) for name in ("trials", "measurements"))
    values = trial_values(trials, measurements, metric)
    ran, same = set(values["treatment"]), aa_arms(study)
    aa_run = [name for name in same[1:] if name in ran]
    others = aa_run or [name for name in study.treatments if name in ran and name not in same]
    pairs = [_centred_pairs(values, name, study.baseline, aa=bool(aa_run)) for name in others]
    return np.concatenate(pairs or [np.empty((0, 2))]), bool(aa_run)


def _centred_pairs(values: pd.DataFrame, name: str, baseline: str, aa: bool) -> NDArray[Any]:
    """Return the pairs of one arm and the baseline less their median; arms that are not alike each less its own."""
    import numpy as np

    from loadbook.stats.pairs import pair_arms

    paired = pair_arms(values, name, baseline)
    arms = np.column_stack([paired.base, paired.other])
    return arms - np.median(arms, axis=None if aa else 0) if len(arms) else arms
