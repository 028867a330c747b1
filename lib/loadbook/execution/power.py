"""Noise of earlier runs on the same hosts, and the differences that a plan can detect with it; reads files only.

Noise is estimated from pairs of trials with the same configuration (the baseline and its A/A arm); without such pairs,
from the scatter of each treatment's ratio to the baseline around its median; without runs, a value is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from loadbook.core.errors import LoadbookError
from loadbook.core.units import first_names, format_duration, format_percent, format_percent_range, pluralize
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.lab import lab_kind
from loadbook.modes.plain.stats import stats_of
from loadbook.store.ledger import read_current_plan
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.run_record import RecordedHost, RunRecord, read_run_record
from loadbook.store.tables import read_table, trial_values
from loadbook.store.trial_record import read_json
from loadbook.study.designs import factorial_design
from loadbook.study.limits import POCOCK_P
from loadbook.study.model import Study
from loadbook.study.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from loadbook.stats.power import PairPool, TrialLength
    from loadbook.stats.steady_state import RateSeries

MIN_BLOCKS = 5
ENOUGH_PAIRS = 60
MAX_RUNS = 50  # newest runs that are read
# facts about a host that identify the machine
MACHINE_FACTS = ("machine", "cpu_model", "cores")
SAME_LOAD, SAME_TOOL, OTHER_TOOL = 2, 1, 0
# keys of a workload in which equal loads may differ
IGNORED_LOAD_KEYS = {"role", "target", "warmup_s", "timeout_s", "expect_status", "expect_bytes"}


@dataclass(frozen=True)
class NoiseSample:
    """The noise of one run, as pairs of log values of two trials of a block; `aa`: both have the same configuration.

    `pairs` has a row per block and two columns: the natural logs of the baseline's value and of the other trial's,
    with medians subtracted. `similarity` to the plan's load is 2 for the same load and services, 1 for the same tool,
    else 0.
    """

    study: str
    run: str
    similarity: int
    aa: bool
    pairs: NDArray[Any]
    paths: RunPaths


def noise_samples(layout: Layout, plan: Plan, hosts: Path | None = None) -> list[NoiseSample]:
    """Return the recorded noise of a plan's metric on these hosts, newest run first; empty if there are no such runs.

    Runs on the same hosts (without a hosts file: the lab) with the most similar load are used, up to 60 pairs.
    Imported and replayed runs, and runs not ingested yet, are left out.
    """
    pairs, samples = 0, list[NoiseSample]()
    for sample in sorted(_read_samples(layout, plan, _hosts_of_file(layout, hosts)), key=lambda r: -r.similarity):
        if samples and (sample.similarity < samples[0].similarity or pairs >= ENOUGH_PAIRS):
            break
        samples.append(sample)
        pairs += len(sample.pairs)
    return samples


def within_trial_rates(sample: NoiseSample) -> tuple[list[RateSeries], float]:
    """Return the request rates over time in each valid trial of the baseline, and the overhead of a trial in seconds.

    Trials of A/A arms are included. The overhead is the median time of a trial beyond the load's planned duration.
    """
    import numpy as np

    from loadbook.stats.steady_state import rate_series

    study = read_current_plan(sample.paths).study
    trials = read_table(sample.paths.table("trials"), "trials")
    baseline_trials = trials[trials["treatment"].isin(aa_arms(study)) & trials["valid"]]
    rates = rate_series(read_table(sample.paths.table("samples"), "samples"))
    around = baseline_trials["duration_s"] - study.workload_of(study.baseline).duration_s
    overhead_s = float(np.nanmedian(around)) if around.notna().any() else 0.0
    return [rates[trial] for trial in baseline_trials["trial"] if trial in rates], max(overhead_s, 0.0)


def aa_arms(study: Study) -> tuple[str, ...]:
    """Return the names of the baseline and of all its A/A arms (treatments with the same configuration)."""
    return (study.baseline, *(name for name in study.treatments if study.repeated_treatment(name) == study.baseline))


def runs_on_same_hosts(layout: Layout, paths: RunPaths) -> Iterator[RunPaths]:
    """Yield the newest runs on the same hosts as this run, which is one of them, newest first."""

    def hosts_key(run: RunRecord) -> tuple[Any, ...]:
        return run.lab_kind, run.hosts, run.replay

    key, machines = hosts_key(read_run_record(paths)), dict[str, Any]()
    _same_machines(paths, machines)
    for other, study in _newest_runs(layout):
        other_paths = layout.run(study, other)
        try:
            other_run = read_run_record(other_paths)
            if not other_run.imported and hosts_key(other_run) == key and _same_machines(other_paths, machines):
                yield other_paths
        except LoadbookError:  # a damaged run
            continue


def _newest_runs(layout: Layout) -> list[tuple[str, str]]:
    every = [(run, study) for study in layout.studies_with_runs() for run in layout.runs(study)]
    return sorted(every, reverse=True)[:MAX_RUNS]


def _read_samples(layout: Layout, plan: Plan, hosts_of_file: _HostsOfFile | None) -> Iterator[NoiseSample]:
    machines: dict[str, Any] = {}
    for run, study in _newest_runs(layout):
        paths = layout.run(study, run)
        try:
            if not _same_hosts(read_run_record(paths), hosts_of_file) or not _same_machines(paths, machines):
                continue
            other_study = read_current_plan(paths).study
            if other_study.execution != plan.study.execution:  # their noise differs by a factor of 10
                continue
            pairs, aa = _noise_pairs(paths, other_study, plan.study.metric)
        except LoadbookError:  # damaged, of another version, or not ingested
            continue
        if len(pairs) >= MIN_BLOCKS and pairs.any():  # with a single block, values minus the median are zero
            yield NoiseSample(study, run, _load_similarity(plan.study, other_study), aa, pairs, paths)


class _HostsOfFile(NamedTuple):
    """Hosts that a hosts file names, with roles and CPUs, and the kind of their lab."""

    lab: str
    hosts: dict[str, RecordedHost]


def _hosts_of_file(layout: Layout, hosts: Path | None) -> _HostsOfFile | None:
    """Return the hosts of a hosts file, by default those of the lab; None for a lab that was never started."""
    file = hosts or layout.lab / "hosts.toml"
    if hosts is None and not file.is_file():
        return None
    entries = read_hosts(file).hosts.items()
    recorded = {alias: RecordedHost(roles=list(e.roles), cpus=list(e.cpus or ())) for alias, e in entries}
    return _HostsOfFile(lab_kind(file), recorded)


def _same_hosts(run: RunRecord, hosts_of_file: _HostsOfFile | None) -> bool:
    if run.imported or run.replay or not run.hosts:
        return False
    if hosts_of_file is None:
        return run.lab_kind == "loopback"
    entries = hosts_of_file.hosts
    return run.lab_kind == hosts_of_file.lab and all(
        alias in entries and set(host.roles) <= set(entries[alias].roles) and (host.cpus or []) == entries[alias].cpus
        for alias, host in run.hosts.items()
    )


def _same_machines(paths: RunPaths, machines: dict[str, Any]) -> bool:
    """Return whether a run's hosts have the facts in `machines` (by host, from newer runs); add those of new hosts."""
    facts_by_file = {path.name: read_json(path) for path in sorted(paths.facts.glob("*-before.json"))}
    values = {
        file: [facts.get(name, {}).get("value") for name in MACHINE_FACTS] for file, facts in facts_by_file.items()
    }
    same = all(machines.get(name, values[name]) == values[name] for name in values)
    if same:
        machines |= values
    return same


def _load_similarity(first: Study, second: Study) -> int:
    """Return SAME_LOAD if workloads and services of two studies are equal, else SAME_TOOL or OTHER_TOOL."""
    loads = [study.workload_of(study.baseline) for study in (first, second)]
    services = [{name: role.service for name, role in study.roles.items()} for study in (first, second)]
    dumps = [load.model_dump(exclude=IGNORED_LOAD_KEYS) for load in loads]
    if dumps[0] == dumps[1] and services[0] == services[1]:
        return SAME_LOAD
    return SAME_TOOL if loads[0].tool == loads[1].tool else OTHER_TOOL


def _noise_pairs(paths: RunPaths, study: Study, metric: str) -> tuple[NDArray[Any], bool]:
    """Return the pairs of a run, with medians subtracted, and whether they are A/A pairs."""
    import numpy as np

    trials, measurements = (read_table(paths.table(name), name) for name in ("trials", "measurements"))
    values = trial_values(trials, measurements, metric)
    ran, same = set(values["treatment"]), aa_arms(study)
    aa_run = [name for name in same[1:] if name in ran]
    others = aa_run or [name for name in study.treatments if name in ran and name not in same]
    pairs = [_centred_pairs(values, name, study.baseline, aa=bool(aa_run)) for name in others]
    return np.concatenate(pairs or [np.empty((0, 2))]), bool(aa_run)


def _centred_pairs(values: pd.DataFrame, name: str, baseline: str, aa: bool) -> NDArray[Any]:
    """Return pairs of an arm and the baseline minus their common median (A/A), or minus the median of each arm."""
    import numpy as np

    from loadbook.stats.paired_tests import pair_arms

    paired = pair_arms(values, name, baseline)
    arms = np.column_stack([paired.base, paired.other])
    return arms - np.median(arms, axis=None if aa else 0) if len(arms) else arms


# assumed coefficient of variation of one trial (2 to 3 % on pinned CPUs of an idle machine), and of a ratio of two
ASSUMED_CV = 0.025
ASSUMED_SD = ASSUMED_CV * 2**0.5
ASSUMED_PAIRS = 200
ALPHA = 0.05
MAX_NAMED_RUNS = 3
LEAST_ROUNDED = 100  # blocks


@dataclass(frozen=True)
class PowerForecast:
    """Difference that a plan can detect, and the number of blocks needed to detect the difference `effect`.

    Parameters
    ----------
    effect : the difference to detect (ratio minus 1), by default the study's margin.
    alpha : significance threshold of one comparison; lower if there are several comparisons or interim analyses.
    sd, sd_range : standard deviation of a block's log ratio, and its 80 % interval (None if `sd` is assumed).
    source : text on the origin of the noise estimate.
    detectable, detectable_range : effect detected with a power of 80 %, and its range; None if blocks are too few.
    blocks_needed, blocks_needed_range : number of blocks to detect `effect`; None if more than 10,000.
    length : the most efficient length of a trial, or a text on why it is not known.
    aa_chance : share of such runs whose A/A arm passes; None without such an arm, or with too few blocks.
    """

    plan: Plan
    effect: float
    alpha: float
    sd: float
    sd_range: tuple[float, float] | None
    source: str
    detectable: float | None
    detectable_range: tuple[float, float] | None
    blocks_needed: int | None
    blocks_needed_range: tuple[int, int] | None
    length: TrialLength | str
    aa_chance: float | None

    @property
    def underpowered(self) -> bool:
        """Return whether the planned blocks are too few to detect `effect`, or too few for any test."""
        return self.detectable is None or self.detectable > self.effect

    def hours(self, blocks: int) -> float:
        """Return the duration of a run with this number of blocks, in hours."""
        return blocks * len(self.plan.treatments) * self.plan.trial_s / 3600

    def to_json(self) -> dict[str, Any]:
        """Return the values of the forecast that `loadbook plan --json` prints."""
        return {
            "effect": self.effect,
            "alpha": self.alpha,
            "sd": self.sd,
            "sd_range": self.sd_range,
            "source": self.source,
            "detectable": self.detectable,
            "detectable_range": self.detectable_range,
            "needed": self.blocks_needed,
            "needed_range": self.blocks_needed_range,
            "needed_hours": None if self.blocks_needed is None else self.hours(self.blocks_needed),
            "length": self.length if isinstance(self.length, str) else self.length._asdict(),
            "aa_chance": self.aa_chance,
        }


def forecast_power(layout: Layout, plan: Plan, hosts: Path | None = None, effect: float | None = None) -> PowerForecast:
    """Return the power of a plan on these hosts (hosts file; None: the lab).

    `effect` is the difference to detect (ratio minus 1, 0.02 for 2 %); None uses the study's margin.
    """
    effect = plan.study.margin if effect is None else effect
    samples = noise_samples(layout, plan, hosts)
    return _forecast_from_samples(plan, effect, samples) if samples else _forecast_from_assumption(plan, effect)


def _forecast_from_samples(plan: Plan, effect: float, samples: list[NoiseSample]) -> PowerForecast:
    import numpy as np

    from loadbook.stats.power import PairPool

    pool = PairPool(np.concatenate([sample.pairs for sample in samples]))
    alpha, factors, ratio = _comparison_alpha(plan), pool.sd_factors, scatter_ratio(plan)
    need = pool.blocks_needed(_scale_effect(effect, 1 / ratio), alpha)
    detectable, span = _detectable_effect(pool, plan.blocks, alpha), None
    if detectable is not None:
        detectable = _scale_effect(detectable, ratio)
        span = _scale_effect(detectable, factors[0]), _scale_effect(detectable, factors[1])
    return PowerForecast(
        plan=plan,
        effect=effect,
        alpha=alpha,
        sd=pool.sd,
        sd_range=(pool.sd * factors[0], pool.sd * factors[1]),
        source=_source_text(plan, samples, len(pool.pairs)),
        detectable=detectable,
        detectable_range=span,
        blocks_needed=None if need is None else need.blocks,
        blocks_needed_range=None if need is None else (need.low, need.high),
        length=_best_trial_length(plan, samples, pool.sd),
        aa_chance=_aa_chance(plan, pool),
    )


def _aa_chance(plan: Plan, pool: PairPool) -> float | None:
    """Return the share of runs of this plan whose A/A arm is narrow enough at the noise of `pool`."""
    from loadbook.stats.verdict import aa_margin

    study = plan.study
    if plan.blocks < MIN_BLOCKS or not any(study.treatments[name].check == "aa" for name in plan.treatments):
        return None
    return pool.narrow_share(plan.blocks, aa_margin(study.margin, study.metric))


def _best_trial_length(plan: Plan, samples: list[NoiseSample], sd: float) -> TrialLength | str:
    """Return the most efficient trial length, from recorded trials of the same load, or a text on why it is unknown."""
    from loadbook.stats.power import estimate_trial_length

    same_load = [sample for sample in samples if sample.similarity == SAME_LOAD]
    if reason := stats_of(plan.study).length_not_known:  # only the statistics of the mode may tell one
        for paths in (sample.paths for sample in same_load):
            study = read_current_plan(paths).study
            trials, measured, own = (read_table(paths.table(n), n) for n in ("trials", "measurements", "samples"))
            by_trial, trial_s = trial_values(trials, measured, study.metric), float(trials["duration_s"].median())
            if length := stats_of(study).trial_length(own, by_trial, aa_arms(study), trial_s):
                return length
        return reason
    tool = plan.study.workload_of(plan.study.baseline).tool
    by_sample = [within_trial_rates(sample) for sample in same_load]
    series = [item for rates, _ in by_sample for item in rates]
    if not series:
        return f"not known: no run of this load with {tool} tells rates by the second"
    overhead_s = max(overhead for _, overhead in by_sample)
    values = [item.values for item in series]
    best = estimate_trial_length(values, series[0].interval_s, sd / math.sqrt(2), overhead_s)
    return best or "not known: it takes five trials of 30 s or more that tell rates by the second"


def _forecast_from_assumption(plan: Plan, effect: float) -> PowerForecast:
    import numpy as np

    from loadbook.stats.power import PairPool, normal_scores
    from loadbook.stats.sequential import blocks_needed, detectable_effect

    alpha = _comparison_alpha(plan)
    sd = ASSUMED_SD * scatter_ratio(plan)
    detectable = detectable_effect(plan.blocks, sd, alpha=alpha) if plan.blocks >= MIN_BLOCKS else None
    needed = blocks_needed(effect, sd, alpha=alpha)
    source = f"assumed, {format_percent(ASSUMED_CV, signed=False)} per trial, as nothing is recorded on these hosts yet"
    unknown = "not known: nothing is recorded yet"
    half = normal_scores(ASSUMED_PAIRS) * ASSUMED_SD / 2  # of pairs of trials that scatter normally
    chance = _aa_chance(plan, PairPool(np.column_stack([half, -half])))
    return PowerForecast(plan, effect, alpha, ASSUMED_SD, None, source, detectable, None, needed, None, unknown, chance)


def _comparison_alpha(plan: Plan) -> float:
    """Return the significance threshold of one comparison, corrected for all comparisons and interim analyses."""
    from loadbook.stats.sequential import equivalent_fixed_alpha

    stopping = plan.study.stopping
    alpha = POCOCK_P.get(len(stopping.looks), ALPHA) / max(1, comparison_count(plan))
    return alpha if stopping.rule != "always-valid" else equivalent_fixed_alpha(max(plan.blocks, MIN_BLOCKS), alpha)


def comparison_count(plan: Plan) -> int:
    """Return the number of treatments compared with the baseline (without checks), or of effects of a factorial."""
    if plan.study.factorial:
        return len(factorial_design(plan.study.factorial).alias_sets)
    return sum(name != plan.study.baseline and not plan.study.treatments[name].check for name in plan.treatments)


def scatter_ratio(plan: Plan) -> float:
    """Return the standard deviation of a factorial's main effect divided by that of a ratio of two trials.

    It is 1 for a study that is not factorial.
    """
    return math.sqrt(2 / len(factorial_design(plan.study.factorial).cells)) if plan.study.factorial else 1.0


def _scale_effect(effect: float, factor: float) -> float:
    return math.expm1(math.log1p(effect) * factor)


def _detectable_effect(pool: PairPool, blocks: int, alpha: float) -> float | None:
    """Return the effect detected with a power of 80 %, by resampling or, for many blocks, by a formula; else None."""
    from loadbook.stats import power

    if blocks < MIN_BLOCKS:
        return None
    if blocks > power.MAX_RESAMPLED_BLOCKS:
        return pool.detectable_by_formula(blocks, alpha)
    effect = pool.detectable_effect(blocks, alpha)
    return effect if math.isfinite(effect) else None


def _source_text(plan: Plan, samples: list[NoiseSample], pairs: int) -> str:
    runs = first_names([f"{sample.run} of {sample.study}" for sample in samples], MAX_NAMED_RUNS)
    tool = plan.study.workload_of(plan.study.baseline).tool
    load = ("another tool’s load", f"another load of {tool}", "this load")[samples[0].similarity]
    kind = "trials alike" if all(sample.aa for sample in samples) else "trials, effects taken out"
    return f"recorded with {load}: {2 * pairs} {kind}, {'runs' if samples[1:] else 'run'} {runs}"


def power_lines(forecast: PowerForecast) -> list[str]:
    """Return the lines about power, or about certified rates, that `loadbook plan` prints."""
    if certified := forecast.plan.mode.certified_rule(forecast.plan):
        return [f"certified   {certified.text}"]
    plan, compared = forecast.plan, comparison_count(forecast.plan)
    among = f", one of {compared} comparisons" if compared > 1 else ""
    among = f", a main effect, one of {compared} effects" if plan.study.factorial else among
    lines = [
        f"noise       {_percent_text(forecast.sd, forecast.sd_range)} between two trials of a block",
        f"            {forecast.source}",
    ]
    if forecast.detectable is None:
        lines.append(
            f"detectable  no difference: {pluralize(plan.blocks, 'block is', 'blocks are')} too few for a test{among}"
        )
    else:
        difference = _percent_text(forecast.detectable, forecast.detectable_range)
        lines.append(f"detectable  {difference} with {plan.blocks} blocks (power 80 %{among})")
    effect = format_percent(forecast.effect, signed=False)
    origin = "the study’s margin" if forecast.effect == plan.study.margin else "as asked"
    lines.append(f"needed      {blocks_needed_text(forecast)} for {effect}, {origin}")
    return [*lines, *_check_lines(forecast), f"length      {_length_text(forecast.length)}"]


def _check_lines(forecast: PowerForecast) -> list[str]:
    """Return a line on the chance of the A/A arm, and one on an absent positive control."""
    from loadbook.stats.verdict import aa_margin

    study, lines = forecast.plan.study, list[str]()
    kinds = {study.treatments[name].check for name in forecast.plan.treatments}
    if forecast.aa_chance is not None:
        share = format_percent(forecast.aa_chance, decimals=0, signed=False)
        margin = format_percent(aa_margin(study.margin, study.metric), signed=False)
        otherwise = "" if study.factorial or study.published else "; else only larger differences can be told"
        lines.append(f"A/A         arm narrower than {margin} in about {share} of such runs{otherwise}")
    elif "aa" not in kinds:
        lines.append('A/A         no arm: nothing shows how small a difference can be told (check = "aa")')
    if "control" not in kinds:
        lines.append('control     none: nothing shows that a cost would be found (check = "control")')
    return lines


def _length_text(length: TrialLength | str) -> str:
    if isinstance(length, str):
        return length
    within, between = (format_percent(part, signed=False) for part in (length.within_1s, length.between))
    parts = f"{within} within a second, {between} between trials, {format_duration(length.overhead_s)} around each"
    if length.best_s is None:
        return f"no scatter between trials is seen: longer ones help as much as more ({parts})"
    return f"trials of {format_duration(length.best_s)} tell most per hour ({parts}); longer ones do not replace more"


def blocks_needed_text(forecast: PowerForecast) -> str:
    """Return a text with the number of blocks needed for the effect, and their duration."""
    if forecast.blocks_needed is None:
        return "more than 10,000 blocks"
    needed, bounds = forecast.blocks_needed, forecast.blocks_needed_range
    about = "about " if needed >= LEAST_ROUNDED else ""
    span = f" ({round_blocks(bounds[0]):,} to {round_blocks(bounds[1]):,})" if bounds else ""
    return f"{about}{round_blocks(needed):,} blocks{span}, {format_duration(forecast.hours(needed) * 3600)},"


def round_blocks(number: int) -> int:
    """Return a forecast number of blocks, from 100 on rounded to two significant digits (1234 becomes 1200)."""
    return number if number < LEAST_ROUNDED else int(float(f"{number:.1e}"))


def noise_cost_text(forecast: PowerForecast) -> str | None:
    """Return a text with the blocks needed at twice the recorded noise and at this noise; None if none is recorded."""
    if forecast.sd_range is None or forecast.blocks_needed is None:
        return None
    needed = round_blocks(forecast.blocks_needed)
    return (
        f"at twice the noise recorded on these hosts, {_short_percent(forecast.effect)} needs "
        f"{round_blocks(4 * forecast.blocks_needed):,} blocks in place of {needed:,}"
    )


def underpowered_note(forecast: PowerForecast) -> str | None:
    """Return a note if the plan has too few blocks to detect its margin, or to certify a rate, else None."""
    if certified := forecast.plan.mode.certified_rule(forecast.plan):
        return f"certified: {certified.text}" if certified.has_too_few_blocks else None
    if not forecast.underpowered:
        return None
    sees = "This run has too few blocks to see any difference."
    if forecast.detectable is not None:
        sees = f"This run can see differences of {_short_percent(forecast.detectable)} or more."
    remedy, bounds = "more than 10,000 blocks", forecast.blocks_needed_range
    if (needed := forecast.blocks_needed) is not None:
        span = f"; {round_blocks(bounds[0]):,} to {round_blocks(bounds[1]):,} blocks" if bounds else ""
        remedy = f"--blocks {round_blocks(needed)} ({format_duration(forecast.hours(needed) * 3600)}{span})"
    origin = "assumed, as on quiet hosts" if forecast.sd_range is None else "recorded on these hosts"
    return f"{sees} For {_short_percent(forecast.effect)}: {remedy}. (Noise {origin}: {_short_percent(forecast.sd)}.)"


def _short_percent(value: float) -> str:
    """Return a ratio in percent with two digits, without a zero at the end: 2 %, 3.5 %, 18 %."""
    return format_percent(float(f"{value:.2g}"), decimals=1 if value < 0.0995 else 0, signed=False).replace(".0", "")


def _percent_text(value: float, span: tuple[float, float] | None) -> str:
    if span is None:
        return format_percent(value, signed=False)
    return f"{format_percent(value, signed=False)} ({format_percent_range(span, signed=False)})"
