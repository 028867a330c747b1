"""Plan of a run: all trials in order, drawn before the first one starts (docs/statistics.md).

Randomised complete blocks. The order of each block has its own random generator, seeded by (seed, block), so that
blocks added later do not change the earlier ones.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NotRequired, TypedDict

from loadbook.core.errors import DataError, UsageError
from loadbook.core.units import pluralize, shorten_list
from loadbook.modes.base import PLAIN, Mode, mode_of
from loadbook.study.model import Study, TrialExecution

# measured in the lab by benchmarks/overhead.py, rounded up; used only to estimate hours and disk space
TRIAL_OVERHEAD_S = 0.5
TRIAL_BYTES, SAMPLE_BYTES = 30_000, 2_000


@dataclass(frozen=True)
class PlannedTrial:
    """One planned trial; `slot` is its 1-based position in the run."""

    trial: str
    treatment: str
    block: int
    slot: int


class PlannedTrialRecord(TypedDict):
    """One planned trial in plan.json."""

    trial: str
    treatment: str
    block: int
    slot: int


MAX_LEFT_OUT = 6  # treatments that a smoke variant leaves out which are named


def left_out_text(treatments: Sequence[str]) -> str:
    """Return "smoke: without a, b": the treatments that a smoke variant leaves out; "" if it has all."""
    return f"smoke: without {', '.join(shorten_list(treatments, MAX_LEFT_OUT))}" if treatments else ""


def plain_instead(study: Study, reason: str) -> str:
    """Return the text on plain trials in place of the blocks that a study would have, for a reason."""
    wanted = mode_of(study.model_copy(update={"execution": "auto"})).execution
    return f"plain, one trial after the other, instead of {wanted}: {reason}"


class PlanRecord(TypedDict):
    """Content of plan.json.

    Keys that may be missing are recorded if they differ from the defaults of `Plan`. What changed after the plan was
    made (added blocks, a reason for plain trials) is recorded in the ledger; imports alone record `added` here.
    """

    study: str
    study_spec: dict[str, Any]
    study_sha256: str
    subset: str
    seed: int | None
    blocks: int
    treatments: list[str]
    trials: list[PlannedTrialRecord]
    added: NotRequired[int]
    execution_chosen: NotRequired[bool]
    plain_because: NotRequired[str]
    latency_blocks: NotRequired[int]
    left_out: NotRequired[list[str]]


@dataclass(frozen=True)
class Plan:
    """All trials of a run in order of execution, with the study and seed from which they were drawn.

    `seed` is None if loadbook did not draw the order (imported results). The study's execution is never "auto":
    `execution_chosen` tells whether loadbook chose it, and `plain_because` is the reason why trials are plain although
    the study allows or asks for interleaved blocks. `latency_blocks` is the number of plain blocks before the
    interleaved ones; `blocks` does not count them, and the numbers of the interleaved blocks follow theirs. `left_out`
    are the treatments of a study that its smoke variant leaves out. `added` is the number of blocks added beyond the
    study's stopping rule; if there are any, the run is exploratory.
    """

    study: Study
    subset: str
    seed: int | None
    blocks: int
    treatments: tuple[str, ...]
    trials: tuple[PlannedTrial, ...]
    plain_because: str | None = None
    execution_chosen: bool = False
    latency_blocks: int = 0
    left_out: tuple[str, ...] = ()
    added: int = 0

    @property
    def mode(self) -> Mode:
        """Return the mode in which the trials are run."""
        return mode_of(self.study)

    def execution_of(self, block: int) -> TrialExecution:
        """Return the execution of the trials of a block (1, 2, ...): "plain" or "interleaved"."""
        return self.mode.execution_of(self, block)

    def with_plain_trials(self, reason: str) -> Plan:
        """Return this plan with plain trials in place of those of another mode; they tell latencies, too."""
        trials = tuple(trial for trial in self.trials if trial.block <= self.blocks)
        study = self.study.model_copy(update={"execution": PLAIN})
        return replace(self, study=study, trials=trials, plain_because=reason, latency_blocks=0)

    @property
    def execution_text(self) -> str:
        """Return which execution the trials have, and why: "interleaved, as the study asks"."""
        return plain_instead(self.study, self.plain_because) if self.plain_because else self.mode.execution_text(self)

    @property
    def blocks_text(self) -> str:
        """Return the number of blocks: "10 blocks", "15 interleaved and 6 plain blocks"."""
        if self.latency_blocks:
            return f"{self.blocks} {self.mode.execution} and {pluralize(self.latency_blocks, 'plain block')}"
        return pluralize(self.blocks, "block")

    @property
    def trial_s(self) -> float:
        """Return the expected mean seconds of a trial, including reset and warm-up."""
        loads = [self.mode.first_load(self.study, self.study.workload_of(name)) for name in self.treatments]
        return self.mode.loads_per_trial(self.study) * (
            self.study.reset.settle_s + fmean(w.warmup_s + w.duration_s for w in loads) + TRIAL_OVERHEAD_S
        )

    @property
    def hours(self) -> float:
        """Return the expected hours of the whole plan."""
        return len(self.trials) * self.trial_s / 3600

    @property
    def disk_bytes(self) -> int:
        """Return the expected bytes under data/raw for the whole plan (a rough number, mostly traces)."""
        samples = self.trial_s / self.study.monitors.interval_s * len(self.study.roles)
        return int(len(self.trials) * (TRIAL_BYTES + samples * SAMPLE_BYTES))

    def to_json(self) -> PlanRecord:
        """Return the content of plan.json."""
        record: PlanRecord = {
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
        if self.execution_chosen:
            record["execution_chosen"] = True
        if self.plain_because:
            record["plain_because"] = self.plain_because
        if self.latency_blocks:
            record["latency_blocks"] = self.latency_blocks
        if self.left_out:
            record["left_out"] = list(self.left_out)
        if self.added:
            record["added"] = self.added
        return record


def make_plan(
    study: Study,
    subset: str | None = None,
    blocks: int | None = None,
    seed: int | None = None,
    reasons_in_services: Sequence[str] = (),
) -> Plan:
    """Return the plan of `study`; None means the study's own subset, number of blocks or seed.

    `reasons_in_services` are reasons against the study's mode besides those in the study.

    Raises
    ------
    UsageError : unknown subset, fewer than one block, a number of blocks other than the study's last look, or reasons
        against the mode that the study asks for. With execution = "auto", such reasons give a plan of plain trials.
    """
    treatments = study.treatments_in(subset)
    blocks = study.blocks if blocks is None else blocks
    seed = study.seed if seed is None else seed
    if blocks < 1:
        raise UsageError(f"a plan needs at least one block, not {blocks}")
    mode = mode_of(study)
    is_chosen = study.execution == "auto" and mode.chosen_by_auto
    study = study.model_copy(update={"execution": mode.execution})
    reasons = mode.reasons_against(study, treatments, reasons_in_services)
    if reasons and not is_chosen:
        raise UsageError(
            f"study {study.name!r} cannot be run {mode.how}: {'; '.join(reasons)}",
            'set execution = "plain" or "auto", or choose another subset',
        )
    looks = study.stopping.looks
    if looks and blocks != looks[-1]:
        hint = "declare other looks in the study, or leave the number of blocks to it"
        raise UsageError(
            f"study {study.name!r} {study.stopping.describe()}: its plan has {looks[-1]}, not {blocks}", hint
        )
    first = mode.first_plain_blocks(study, blocks)
    trials = _draw_trials(mode, treatments, seed, first + blocks)
    plan = Plan(
        study, subset or study.subset, seed, blocks, tuple(treatments), trials,
        execution_chosen=is_chosen, latency_blocks=first,
    )  # fmt: skip
    return plan.with_plain_trials("; ".join(reasons)) if reasons else plan


def additional_trials(plan: Plan, blocks: int) -> tuple[PlannedTrial, ...]:
    """Return the trials that extend a plan to `blocks` blocks (besides those for latencies), from the same random draw.

    Raises
    ------
    UsageError : loadbook did not draw the plan.
    """
    if plan.seed is None:
        raise UsageError("the order of an imported run was not drawn here", "import a longer run instead")
    return _draw_trials(plan.mode, plan.treatments, plan.seed, plan.latency_blocks + blocks)[len(plan.trials) :]


def _draw_trials(mode: Mode, treatments: Sequence[str], seed: int, blocks: int) -> tuple[PlannedTrial, ...]:
    drawn, order = list[tuple[int, str]](), list[str]()
    for block in range(1, blocks + 1):
        order = mode.draw_order(treatments, random.Random(f"loadbook {seed} {block}"), order)
        drawn += [(block, name) for name in order]
    return tuple(PlannedTrial(f"t{i:04d}", name, block, i) for i, (block, name) in enumerate(drawn, 1))


def parse_plan(raw: Mapping[str, Any], source: str) -> Plan:
    """Return the plan in the content `raw` of plan.json; DataError names `source` if it is not a plan."""
    try:
        study = parse_study_spec(raw["study_spec"])
        trials = tuple(PlannedTrial(**t) for t in raw["trials"])
        return Plan(
            study, raw["subset"], raw["seed"], raw["blocks"], tuple(raw["treatments"]), trials,
            plain_because=raw.get("plain_because"),
            execution_chosen=raw.get("execution_chosen", False),
            latency_blocks=raw.get("latency_blocks", 0),
            left_out=tuple(raw.get("left_out", ())),
            added=raw.get("added", 0),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{source} is not a plan: {error}",
            "it is damaged, or of another version of loadbook: loadbook verify tells which",
        ) from error


def parse_study_spec(spec: Mapping[str, Any]) -> Study:
    """Return the study of a plan; without a key `execution`, as in those of earlier versions, its trials are plain.

    ValueError: it is not the spec of a study.
    """
    return Study.model_validate_json(json.dumps({"execution": PLAIN} | dict(spec)))


def as_planned(study: Study, plan: Plan) -> Study:
    """Return a study with the execution of a plan, if that was loadbook's choice: to compare it with the plan's."""
    if study.execution == "auto" or plan.plain_because:
        return study.model_copy(update={"execution": plan.study.execution})
    return study


def study_spec(study: Study) -> dict[str, Any]:
    """Return the whole study as JSON values, with included files merged."""
    left_out = {name for name, table in (("ci", study.ci), ("capacity", study.capacity)) if table is None}
    if study.execution == PLAIN:  # earlier versions had no such key, and resumed runs are compared with their specs
        left_out.add("execution")
    if not study.slices:
        left_out.add("slices")
    if study.execution != "shared":
        left_out.add("turns")
    if not study.latency_blocks:
        left_out.add("latency_blocks")
    spec = study.model_dump(mode="json", by_alias=True, exclude=left_out)
    if study.workload.max_connections is None:
        del spec["workload"]["max_connections"]
    if not study.workload.request_times:
        del spec["workload"]["request_times"]
    if study.capacity and study.capacity.certified_share is None:
        del spec["capacity"]["certified_share"]
    return spec


def study_sha256(study: Study) -> str:
    """Return the sha256 of a study without `[ci]`; comments, order and formatting of its file have no effect."""
    measurement_spec = {key: value for key, value in study_spec(study).items() if key != "gate"}
    return hashlib.sha256(json.dumps(measurement_spec, sort_keys=True).encode()).hexdigest()
