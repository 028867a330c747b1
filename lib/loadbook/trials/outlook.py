"""What a plan can find at the noise that is known beforehand: the difference, the blocks it needs, the time they take.

From pseudo-studies of recorded pairs (stats.noise.plasmode), else from an assumption that says so. No network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.core.units import format_percent, format_percent_range, format_duration
from loadbook.design.factorial import factorial_design
from loadbook.design.plan import Plan
from loadbook.design.stopping import POCOCK_P
from loadbook.records.layout import Layout
from loadbook.trials.recorded import MIN_BLOCKS, SAME_LOAD, NoiseSample, within_trial_rates, noise_samples

if TYPE_CHECKING:
    from loadbook.stats.noise.plasmode import PairPool
    from loadbook.stats.noise.trial_length import TrialLength

# scatter of one trial on pinned CPUs of a quiet machine (2 to 3 %), and of the ratio of two
ASSUMED_CV = 0.025
ASSUMED_SD = ASSUMED_CV * 2**0.5
ALPHA = 0.05
MAX_NAMED_RUNS = 3


@dataclass(frozen=True)
class PowerForecast:
    """What so many blocks find, and what the `effect` looked for needs.

    Parameters
    ----------
    effect : the difference looked for (ratio minus 1), by default the study's margin.
    alpha : threshold of one comparison: the smaller, the more comparisons and looks share it.
    sd, sd_range : scatter of the log ratio of a block, with the range in which it lies with 80 % (None: assumed).
    source : where that is known from, in words.
    detectable, detectable_range : effect that the planned blocks find with a probability of 80 %; None with too few.
    blocks_needed, blocks_needed_range : blocks that find the effect; None for more than 10,000.
    length : how long a trial gives most per hour, or why that is not known.
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

    @property
    def underpowered(self) -> bool:
        """Tell whether the planned blocks are too few for the effect looked for."""
        return self.detectable is None or self.detectable > self.effect

    def hours(self, blocks: int) -> float:
        """Return the hours that a run of so many blocks takes."""
        return blocks * len(self.plan.treatments) * self.plan.trial_s / 3600

    def to_json(self) -> dict[str, Any]:
        """Return what `loadbook plan --json` says of it."""
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
        }


def forecast_power(layout: Layout, plan: Plan, hosts: Path | None = None, effect: float | None = None) -> PowerForecast:
    """Return what a plan can find on these hosts (default: the lab); `effect` is by default the study's margin."""
    effect = plan.study.margin if effect is None else effect
    samples = noise_samples(layout, plan, hosts)
    return _forecast_from_samples(plan, effect, samples) if samples else _forecast_from_assumption(plan, effect)


def _forecast_from_samples(plan: Plan, effect: float, samples: list[NoiseSample]) -> PowerForecast:
    import numpy as np

    from loadbook.stats.noise.plasmode import PairPool

    pool = PairPool(np.concatenate([sample.pairs for sample in samples]))
    alpha, factors = _comparison_alpha(plan), pool.sd_factors
    need = pool.blocks_needed(_scale_effect(effect, 1 / scatter_ratio(plan)), alpha)
    detectable = _detectable_effect(pool, plan.blocks, alpha)
    detectable = None if detectable is None else _scale_effect(detectable, scatter_ratio(plan))
    return PowerForecast(
        plan=plan,
        effect=effect,
        alpha=alpha,
        sd=pool.sd,
        sd_range=(pool.sd * factors[0], pool.sd * factors[1]),
        source=_source_text(plan, samples, len(pool.pairs)),
        detectable=detectable,
        detectable_range=None if detectable is None else _effect_range(detectable, factors),
        blocks_needed=None if need is None else need.blocks,
        blocks_needed_range=None if need is None else (need.low, need.high),
        length=_best_trial_length(plan, samples, pool.sd),
    )


def _best_trial_length(plan: Plan, samples: list[NoiseSample], sd: float) -> TrialLength | str:
    """Return what the inside of recorded trials of this load says of their best length, or what is missing."""
    from loadbook.stats.noise.trial_length import estimate_trial_length

    tool = plan.study.workload_of(plan.study.baseline).tool
    by_sample = [within_trial_rates(item) for item in samples if item.similarity == SAME_LOAD]
    series = [item for rates, _ in by_sample for item in rates]
    if not series:
        return f"not known: no run of this load with {tool} tells rates by the second"
    best = estimate_trial_length(
        [item.values for item in series], series[0].interval_s, sd / math.sqrt(2), max(overhead for _, overhead in by_sample)
    )
    return best or "not known: it takes five trials of 30 s or more that tell rates by the second"


def _forecast_from_assumption(plan: Plan, effect: float) -> PowerForecast:
    from loadbook.stats.plan import blocks_needed, detectable_effect

    alpha = _comparison_alpha(plan)
    sd = ASSUMED_SD * scatter_ratio(plan)
    effect_found = detectable_effect(plan.blocks, sd, alpha=alpha) if plan.blocks >= MIN_BLOCKS else None
    needed = blocks_needed(effect, sd, alpha=alpha)
    source = f"assumed, {format_percent(ASSUMED_CV, signed=False)} per trial, as nothing is recorded on these hosts yet"
    unknown = "not known: nothing is recorded yet"
    return PowerForecast(plan, effect, alpha, ASSUMED_SD, None, source, effect_found, None, needed, None, unknown)


def _comparison_alpha(plan: Plan) -> float:
    """Return the threshold of one comparison among those of the plan, and of one look among its looks."""
    from loadbook.stats.sequential import equivalent_fixed_alpha

    stopping = plan.study.stopping
    alpha = POCOCK_P.get(len(stopping.looks), ALPHA) / max(1, comparison_count(plan))
    return alpha if stopping.rule != "always-valid" else equivalent_fixed_alpha(max(plan.blocks, MIN_BLOCKS), alpha)


def comparison_count(plan: Plan) -> int:
    """Return how many treatments are compared, or effects of a factorial: checks of the laboratory are not."""
    if plan.study.factorial:
        return len(factorial_design(plan.study.factorial).alias_sets)
    return sum(name != plan.study.baseline and not plan.study.treatments[name].check for name in plan.treatments)


def scatter_ratio(plan: Plan) -> float:
    """Return the scatter of a main effect of a factorial, which uses every trial, over that of two trials' ratio."""
    return math.sqrt(2 / len(factorial_design(plan.study.factorial).cells)) if plan.study.factorial else 1.0


def _scale_effect(effect: float, factor: float) -> float:
    return math.expm1(math.log1p(effect) * factor)


def _detectable_effect(pool: PairPool, blocks: int, alpha: float) -> float | None:
    """Return what so many blocks detect; beyond the blocks that are drawn again and again, by the formula."""
    from loadbook.stats.noise import plasmode

    if blocks < MIN_BLOCKS:
        return None
    if blocks > plasmode.MAX_RESAMPLED_BLOCKS:
        return pool.detectable_by_formula(blocks, alpha)
    effect = pool.detectable_effect(blocks, alpha)
    return effect if math.isfinite(effect) else None


def _effect_range(effect: float, factors: tuple[float, float]) -> tuple[float, float]:
    low, high = (_scale_effect(effect, factor) for factor in factors)
    return low, high


def _source_text(plan: Plan, samples: list[NoiseSample], pairs: int) -> str:
    runs = [f"{sample.run} of {sample.study}" for sample in samples[:MAX_NAMED_RUNS]]
    more = f" and {len(samples) - MAX_NAMED_RUNS} more" if len(samples) > MAX_NAMED_RUNS else ""
    tool = plan.study.workload_of(plan.study.baseline).tool
    load = ("another tool’s load", f"another load of {tool}", "this load")[samples[0].similarity]
    kind = "trials alike" if all(sample.aa for sample in samples) else "trials, effects taken out"
    return f"recorded with {load}: {2 * pairs} {kind}, run{'s' if len(samples) > 1 else ''} {', '.join(runs)}{more}"


def power_lines(forecast: PowerForecast) -> list[str]:
    """Return what `loadbook plan` prints of it."""
    plan, compared = forecast.plan, comparison_count(forecast.plan)
    among = f", one of {compared} comparisons" if compared > 1 else ""
    among = f", a main effect, one of {compared} effects" if plan.study.factorial else among
    lines = [
        f"noise       {_percent_text(forecast.sd, forecast.sd_range)} between two trials of a block",
        f"            {forecast.source}",
    ]
    if forecast.detectable is None:
        lines.append(f"detectable  no difference: {plan.blocks} blocks are too few for a test{among}")
    else:
        difference = _percent_text(forecast.detectable, forecast.detectable_range)
        lines.append(f"detectable  {difference} with {plan.blocks} blocks (power 80 %{among})")
    margin = "the study’s margin" if forecast.effect == plan.study.margin else "as asked"
    lines.append(f"needed      {blocks_needed_text(forecast)} for {format_percent(forecast.effect, signed=False)}, {margin}")
    return [*lines, f"length      {_length_text(forecast.length)}"]


def _length_text(length: TrialLength | str) -> str:
    if isinstance(length, str):
        return length
    within, between = (format_percent(part, signed=False) for part in (length.within_1s, length.between))
    parts = f"{within} within a second, {between} between trials, {format_duration(length.overhead_s)} around each"
    if length.best_s is None:
        return f"no scatter between trials is seen: longer ones help as much as more ({parts})"
    return f"trials of {format_duration(length.best_s)} tell most per hour ({parts}); longer ones do not replace more"


def blocks_needed_text(forecast: PowerForecast) -> str:
    """Return how many blocks the effect needs, and how long they take."""
    if forecast.blocks_needed is None:
        return "more than 10,000 blocks"
    span = f" ({forecast.blocks_needed_range[0]} to {forecast.blocks_needed_range[1]})" if forecast.blocks_needed_range else ""
    return f"{forecast.blocks_needed} blocks{span}, {format_duration(forecast.hours(forecast.blocks_needed) * 3600)},"


def underpowered_note(forecast: PowerForecast) -> str | None:
    """Return the line that `loadbook run` begins with where the plan is too short for the margin, else None."""
    if not forecast.underpowered:
        return None
    blocks = forecast.plan.blocks
    ability = "detect nothing" if forecast.detectable is None else f"detect {format_percent(forecast.detectable, signed=False)}"
    return (
        f"{blocks} blocks {ability}; {format_percent(forecast.effect, signed=False)} needs {blocks_needed_text(forecast)} "
        f"at a noise of {format_percent(forecast.sd, signed=False)} ({forecast.source})"
    )


def _percent_text(value: float, span: tuple[float, float] | None) -> str:
    if span is None:
        return format_percent(value, signed=False)
    return f"{format_percent(value, signed=False)} ({format_percent_range(span, signed=False)})"
