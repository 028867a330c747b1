"""The plan of a run: all trials in order, drawn before the first one starts (docs/statistics.md).

Randomised complete blocks. Each block draws its order from a generator of its own, seeded by (seed, block), so that
asking for more blocks later leaves the earlier ones as they were.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NotRequired, TypedDict

from loadbook.core.errors import DataError, UsageError
from loadbook.study.interleaving import plain_reasons
from loadbook.study.model import Study

# measured in the lab by benchmarks/overhead.py, rounded up; only the estimate of hours and disk uses them
TRIAL_OVERHEAD_S = 0.5
TRIAL_BYTES, SAMPLE_BYTES = 30_000, 2_000


@dataclass(frozen=True)
class PlannedTrial:
    """One trial to be done: `slot` is its 1-based position in the whole run."""

    trial: str
    treatment: str
    block: int
    slot: int


class PlannedTrialRecord(TypedDict):
    """One trial in plan.json."""

    trial: str
    treatment: str
    block: int
    slot: int


class PlanRecord(TypedDict):
    """The content of plan.json; `added` blocks, for which the study did not provide, are in the ledger only."""

    study: str
    study_spec: dict[str, Any]
    study_sha256: str
    subset: str
    seed: int | None
    blocks: int
    treatments: list[str]
    trials: list[PlannedTrialRecord]
    added: NotRequired[int]


@dataclass(frozen=True)
class Plan:
    """All trials of a run in the order of execution, and the study and seed that they were drawn from.

    `seed` is None where the order was not drawn by loadbook: results that were imported.
    """

    study: Study
    subset: str
    seed: int | None
    blocks: int
    treatments: tuple[str, ...]
    trials: tuple[PlannedTrial, ...]

    @property
    def interleaved(self) -> bool:
        """Whether the treatments of a block are up at once and take turns."""
        return self.study.execution == "interleaved"

    @property
    def trial_s(self) -> float:
        """Expected seconds of one trial, on average: reset, warm-up, measurement and everything around them."""
        loads = [self.study.workload_of(name) for name in self.treatments]
        return self.study.reset.settle_s + fmean(w.warmup_s + w.duration_s for w in loads) + TRIAL_OVERHEAD_S

    @property
    def hours(self) -> float:
        """Expected hours of the whole plan."""
        return len(self.trials) * self.trial_s / 3600

    @property
    def disk_bytes(self) -> int:
        """Expected bytes under data/raw for the whole plan (rough: traces are most of it)."""
        samples = self.trial_s / self.study.monitors.interval_s * len(self.study.roles)
        return int(len(self.trials) * (TRIAL_BYTES + samples * SAMPLE_BYTES))

    def to_json(self) -> PlanRecord:
        """Return the content of plan.json."""
        return {
            "study": self.study.name,
            "study_spec": study_spec(self.study),
            "study_sha256": study_sha256(self.study),
            "subset": self.subset,
            "seed": self.seed,
            "blocks": self.blocks,
            "treatments": list(self.treatments),
            "trials": [
                {"trial": t.trial, "treatment": t.treatment, "block": t.block, "slot": t.slot} for t in self.trials
            ],
        }


def make_plan(study: Study, subset: str | None = None, blocks: int | None = None, seed: int | None = None) -> Plan:
    """Return the plan of `study`; None takes the study's own subset, number of blocks and seed.

    Raises
    ------
    UsageError : unknown subset, fewer than one block, or another number than the study's last look.
    """
    treatments = study.treatments_in(subset)
    blocks = study.blocks if blocks is None else blocks
    seed = study.seed if seed is None else seed
    if blocks < 1:
        raise UsageError(f"a plan needs at least one block, not {blocks}")
    if study.execution == "interleaved" and (reasons := plain_reasons(study, treatments)):
        raise UsageError(
            f"study {study.name!r} cannot be run in interleaved blocks: {'; '.join(reasons)}",
            'set execution = "plain", or choose another subset',
        )
    looks = study.stopping.looks
    if looks and blocks != looks[-1]:
        hint = "declare other looks in the study, or leave the number of blocks to it"
        raise UsageError(
            f"study {study.name!r} {study.stopping.describe()}: its plan has {looks[-1]}, not {blocks}", hint
        )
    return Plan(study, subset or study.subset, seed, blocks, tuple(treatments), _draw_trials(treatments, seed, blocks))


def additional_trials(plan: Plan, blocks: int) -> tuple[PlannedTrial, ...]:
    """Return the trials that extend a plan to so many blocks, by the same random draw.

    Raises
    ------
    UsageError : the plan was not drawn by loadbook.
    """
    if plan.seed is None:
        raise UsageError("the order of an imported run was not drawn here", "import a longer run instead")
    return _draw_trials(plan.treatments, plan.seed, blocks)[len(plan.trials) :]


def _draw_trials(treatments: tuple[str, ...], seed: int, blocks: int) -> tuple[PlannedTrial, ...]:
    drawn = []
    for block in range(1, blocks + 1):
        order = list(treatments)
        random.Random(f"loadbook {seed} {block}").shuffle(order)
        drawn += [(block, name) for name in order]
    return tuple(PlannedTrial(f"t{i:04d}", name, block, i) for i, (block, name) in enumerate(drawn, 1))


def parse_plan(raw: Mapping[str, Any], source: str) -> Plan:
    """Return the plan that plan.json (`raw`) holds; DataError names `source` when it does not hold one."""
    try:
        study = Study.model_validate_json(json.dumps(raw["study_spec"]))
        trials = tuple(PlannedTrial(**t) for t in raw["trials"])
        return Plan(study, raw["subset"], raw["seed"], raw["blocks"], tuple(raw["treatments"]), trials)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{source} is not a plan: {error}",
            "it is damaged, or of another version of loadbook: loadbook verify tells which",
        ) from error


def study_spec(study: Study) -> dict[str, Any]:
    """Return the whole spec as JSON values, includes resolved."""
    left_out = {"ci"} if study.ci is None else set()
    if study.execution == "plain":  # the spec of earlier versions, which resumed runs are compared with
        left_out.add("execution")
    return study.model_dump(mode="json", by_alias=True, exclude=left_out)


def study_sha256(study: Study) -> str:
    """Return the sha256 of a study without `[ci]`; comments, order and formatting of its file do not count."""
    measurement_spec = {key: value for key, value in study_spec(study).items() if key != "gate"}
    return hashlib.sha256(json.dumps(measurement_spec, sort_keys=True).encode()).hexdigest()
