"""What a plan can find at the noise that is known beforehand: the difference, the blocks it needs, the time they take.

From pseudo-studies of recorded pairs (stats.noise.plasmode), else from an assumption that says so. No network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.core.units import percent, percent_range, seconds
from loadbook.design.factorial import design_of
from loadbook.design.plan import Plan
from loadbook.design.stopping import POCOCK
from loadbook.records.layout import Layout
from loadbook.trials.recorded import MIN_BLOCKS, SAME_LOAD, Recording, inside, recordings

if TYPE_CHECKING:
    from loadbook.stats.noise.plasmode import Pool
    from loadbook.stats.noise.trial_length import Length

# scatter of one trial on pinned CPUs of a quiet machine (2 to 3 %), and of the ratio of two
ASSUMED_CV = 0.025
ASSUMED_SD = ASSUMED_CV * 2**0.5
ALPHA = 0.05
SAID_RUNS = 3


@dataclass(frozen=True)
class Outlook:
    """What so many blocks find, and what the `effect` looked for needs.

    Parameters
    ----------
    effect : the difference looked for (ratio minus 1), by default the study's margin.
    alpha : threshold of one comparison: the smaller, the more comparisons and looks share it.
    sd, sd_range : scatter of the log ratio of a block, with the range in which it lies with 80 % (None: assumed).
    source : where that is known from, in words.
    detectable, detectable_range : effect that the planned blocks find with a probability of 80 %; None with too few.
    needed, needed_range : blocks that find the effect; None for more than 10,000.
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
    needed: int | None
    needed_range: tuple[int, int] | None
    length: Length | str

    @property
    def falls_short(self) -> bool:
        """Tell whether the planned blocks are too few for the effect looked for."""
        return self.detectable is None or self.detectable > self.effect

    def hours(self, blocks: int) -> float:
        """Return the hours that a run of so many blocks takes."""
        return blocks * len(self.plan.treatments) * self.plan.trial_s / 3600

    def to_json(self) -> dict[str, Any]:
        """Return what `loadbook plan --json` says of it."""
        names = (
            "effect", "alpha", "sd", "sd_range", "source", "detectable", "detectable_range", "needed", "needed_range",
        )  # fmt: skip
        needed_hours = None if self.needed is None else self.hours(self.needed)
        length = self.length if isinstance(self.length, str) else self.length._asdict()
        return {name: getattr(self, name) for name in names} | {"needed_hours": needed_hours, "length": length}


def outlook(layout: Layout, plan: Plan, hosts: Path | None = None, effect: float | None = None) -> Outlook:
    """Return what a plan can find on these hosts (default: the lab); `effect` is by default the study's margin."""
    effect = plan.study.margin if effect is None else effect
    found = recordings(layout, plan, hosts)
    return _recorded(plan, effect, found) if found else _assumed(plan, effect)


def _recorded(plan: Plan, effect: float, found: list[Recording]) -> Outlook:
    import numpy as np

    from loadbook.stats.noise.plasmode import Pool

    pool = Pool(np.concatenate([one.pairs for one in found]))
    alpha, factors = _alpha(plan), pool.factors
    need = pool.needed(_powered(effect, 1 / gain(plan)), alpha)
    detectable = _detectable(pool, plan.blocks, alpha)
    detectable = None if detectable is None else _powered(detectable, gain(plan))
    return Outlook(
        plan=plan,
        effect=effect,
        alpha=alpha,
        sd=pool.sd,
        sd_range=(pool.sd * factors[0], pool.sd * factors[1]),
        source=_said(plan, found, len(pool.pairs)),
        detectable=detectable,
        detectable_range=None if detectable is None else _scaled(detectable, factors),
        needed=None if need is None else need.blocks,
        needed_range=None if need is None else (need.low, need.high),
        length=_length(plan, found, pool.sd),
    )


def _length(plan: Plan, found: list[Recording], sd: float) -> Length | str:
    """Return what the inside of recorded trials of this load says of their best length, or what is missing."""
    from loadbook.stats.noise.trial_length import trial_length

    tool = plan.study.workload_of(plan.study.baseline).tool
    told = [inside(one) for one in found if one.alike == SAME_LOAD]
    series = [one for rates, _ in told for one in rates]
    if not series:
        return f"not known: no run of this load with {tool} tells rates by the second"
    best = trial_length(
        [one.values for one in series], series[0].interval_s, sd / math.sqrt(2), max(overhead for _, overhead in told)
    )
    return best or "not known: it takes five trials of 30 s or more that tell rates by the second"


def _assumed(plan: Plan, effect: float) -> Outlook:
    from loadbook.stats.plan import blocks_needed, detectable

    alpha = _alpha(plan)
    sd = ASSUMED_SD * gain(plan)
    found = detectable(plan.blocks, sd, alpha=alpha) if plan.blocks >= MIN_BLOCKS else None
    needed = blocks_needed(effect, sd, alpha=alpha)
    said = f"assumed, {percent(ASSUMED_CV, signed=False)} per trial, as nothing is recorded on these hosts yet"
    unknown = "not known: nothing is recorded yet"
    return Outlook(plan, effect, alpha, ASSUMED_SD, None, said, found, None, needed, None, unknown)


def _alpha(plan: Plan) -> float:
    """Return the threshold of one comparison among those of the plan, and of one look among its looks."""
    from loadbook.stats.sequential import as_fixed

    stopping = plan.study.stopping
    alpha = POCOCK.get(len(stopping.looks), ALPHA) / max(1, comparisons(plan))
    return alpha if stopping.rule != "always-valid" else as_fixed(max(plan.blocks, MIN_BLOCKS), alpha)


def comparisons(plan: Plan) -> int:
    """Return how many treatments are compared, or effects of a factorial: checks of the laboratory are not."""
    if plan.study.factorial:
        return len(design_of(plan.study.factorial).effects)
    return sum(name != plan.study.baseline and not plan.study.treatments[name].check for name in plan.treatments)


def gain(plan: Plan) -> float:
    """Return the scatter of a main effect of a factorial, which uses every trial, over that of two trials' ratio."""
    return math.sqrt(2 / len(design_of(plan.study.factorial).cells)) if plan.study.factorial else 1.0


def _powered(effect: float, factor: float) -> float:
    return math.expm1(math.log1p(effect) * factor)


def _detectable(pool: Pool, blocks: int, alpha: float) -> float | None:
    """Return what so many blocks detect; beyond the blocks that are drawn again and again, by the formula."""
    from loadbook.stats.noise import plasmode

    if blocks < MIN_BLOCKS:
        return None
    if blocks > plasmode.MOST_BLOCKS:
        return pool.beyond(blocks, alpha)
    found = pool.detectable(blocks, alpha)
    return found if math.isfinite(found) else None


def _scaled(effect: float, factors: tuple[float, float]) -> tuple[float, float]:
    low, high = (_powered(effect, factor) for factor in factors)
    return low, high


def _said(plan: Plan, found: list[Recording], pairs: int) -> str:
    runs = [f"{one.run} of {one.study}" for one in found[:SAID_RUNS]]
    more = f" and {len(found) - SAID_RUNS} more" if len(found) > SAID_RUNS else ""
    own = plan.study.workload_of(plan.study.baseline).tool
    load = ("another tool’s load", f"another load of {own}", "this load")[found[0].alike]
    kind = "trials alike" if all(one.aa for one in found) else "trials, effects taken out"
    return f"recorded with {load}: {2 * pairs} {kind}, run{'s' if len(found) > 1 else ''} {', '.join(runs)}{more}"


def lines(found: Outlook) -> list[str]:
    """Return what `loadbook plan` prints of it."""
    plan, compared = found.plan, comparisons(found.plan)
    among = f", one of {compared} comparisons" if compared > 1 else ""
    among = f", a main effect, one of {compared} effects" if plan.study.factorial else among
    told = [
        f"noise       {_percent(found.sd, found.sd_range)} between two trials of a block",
        f"            {found.source}",
    ]
    if found.detectable is None:
        told.append(f"detectable  no difference: {plan.blocks} blocks are too few for a test{among}")
    else:
        difference = _percent(found.detectable, found.detectable_range)
        told.append(f"detectable  {difference} with {plan.blocks} blocks (power 80 %{among})")
    margin = "the study’s margin" if found.effect == plan.study.margin else "as asked"
    told.append(f"needed      {needed(found)} for {percent(found.effect, signed=False)}, {margin}")
    return [*told, f"length      {_length_words(found.length)}"]


def _length_words(found: Length | str) -> str:
    if isinstance(found, str):
        return found
    within, between = (percent(part, signed=False) for part in (found.within_1s, found.between))
    parts = f"{within} within a second, {between} between trials, {seconds(found.overhead_s)} around each"
    if found.best_s is None:
        return f"no scatter between trials is seen: longer ones help as much as more ({parts})"
    return f"trials of {seconds(found.best_s)} tell most per hour ({parts}); longer ones do not replace more"


def needed(found: Outlook) -> str:
    """Return how many blocks the effect needs, and how long they take."""
    if found.needed is None:
        return "more than 10,000 blocks"
    span = f" ({found.needed_range[0]} to {found.needed_range[1]})" if found.needed_range else ""
    return f"{found.needed} blocks{span}, {seconds(found.hours(found.needed) * 3600)},"


def shortfall(found: Outlook) -> str | None:
    """Return the line that `loadbook run` begins with where the plan is too short for the margin, else None."""
    if not found.falls_short:
        return None
    blocks = found.plan.blocks
    able = "detect nothing" if found.detectable is None else f"detect {percent(found.detectable, signed=False)}"
    return (
        f"{blocks} blocks {able}; {percent(found.effect, signed=False)} needs {needed(found)} "
        f"at a noise of {percent(found.sd, signed=False)} ({found.source})"
    )


def _percent(value: float, span: tuple[float, float] | None) -> str:
    if span is None:
        return percent(value, signed=False)
    return f"{percent(value, signed=False)} ({percent_range(span, signed=False)})"
