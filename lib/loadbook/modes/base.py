"""The interface of a mode, a way of running a study's trials; the list of all modes.

A mode is a folder of `loadbook.modes` whose module `mode` has an instance `MODE` of a subclass of `Mode`. What a mode
does on higher layers is in modules of its folder that are loaded when they are needed (`Mode.facet`); those that it
lacks are those of plain trials.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

if TYPE_CHECKING:
    from loadbook.core.errors import SpecProblem
    from loadbook.services import ServiceSpec
    from loadbook.store.trial_record import TrialRecord
    from loadbook.study.model import Study
    from loadbook.study.plan import Plan
    from loadbook.study.workload import Workload

# folder -> value of the study's `execution` that asks for the mode; None: a table of the study file asks for it
MODES: dict[str, str | None] = {"capacity": None, "shared": "shared", "interleaved": "interleaved", "plain": "plain"}
EXECUTIONS = tuple(value for value in MODES.values() if value)
PLAIN = "plain"
# what a trial measures, in the trials table
ALL, RATES, LATENCIES = "all", "rates", "latencies"


class PlainTrialsError(Exception):
    """A mode found during a run that these hosts or loads do not allow it; the run goes on with plain trials.

    It may be raised only as long as no trial of the mode counts: the execution of a run is that of all its trials.
    """


class PlanText(NamedTuple):
    """Texts of `loadbook plan`: `load` describes the load of one trial.

    `after_execution` and `after_time` are appended to the lines on execution and time; "" appends nothing.
    """

    load: str
    after_execution: str = ""
    after_time: str = ""


class TellingBlocks(NamedTuple):
    """Blocks of a plan whose trials are compared by a metric: their `number`, and that of the blocks `before` them.

    `execution` is theirs ("plain", "interleaved") if other blocks have another one, else None. `is_fixed`: they come
    first, before any interim analysis.
    """

    number: int
    before: int = 0
    execution: str | None = None
    is_fixed: bool = False

    @property
    def noun(self) -> str:
        """Return what one of them is called: "plain block", or "block"."""
        return block_noun(self.execution)


def block_noun(execution: str | None) -> str:
    """Return what a block with this execution is called: "plain block" for "plain", "block" for any other or None."""
    return f"{PLAIN} block" if execution == PLAIN else "block"


class CertifiedRule(NamedTuple):
    """When a plan certifies the rates of its loads, and whether it has too few blocks for that.

    `text` is such as "if at most 1 of 46 starts misses the objective, for 90 % of starts (95 % confidence)".
    """

    text: str
    has_too_few_blocks: bool


class Mode:
    """A way of running trials; the methods of this class describe plain trials, one after the other.

    Attributes
    ----------
    name : name of the folder.
    how : text on how trials are run, after "cannot be run".
    chosen_by_auto : whether a study with execution = "auto" gets this mode if nothing speaks against it. Its
        `is_asked_by` must be true of such a study. Of several such modes, the first one in `MODES` is taken.
    shares_hosts : whether the services of all treatments of a block are up at once.
    shares_generator : whether the treatments of a block have one load generator on each driver.
    load_unit : what one load of a trial is called in a dry run, with their number from `loads_per_trial`.
    measures_cpu : whether the CPU time of services is measured for every metric.
    """

    name: ClassVar[str] = PLAIN
    how: ClassVar[str] = "in plain trials"
    chosen_by_auto: ClassVar[bool] = False
    shares_hosts: ClassVar[bool] = False
    shares_generator: ClassVar[bool] = False
    load_unit: ClassVar[str] = "trial"
    measures_cpu: ClassVar[bool] = False

    # --- the study file

    def is_asked_by(self, study: Study) -> bool:
        """Return whether a study asks for this mode."""
        return study.execution == MODES[self.name]

    def key_problems(self, raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield path and message of contradictions between keys in the tables of any study file, as they are read."""
        yield from ()

    def problems(self, study: Study) -> Iterator[SpecProblem]:
        """Yield mistakes in the keys of this mode in any study whose tables are valid by themselves."""
        yield from ()

    def smoke_changes(self, study: Study) -> dict[str, Any]:
        """Return the fields of a smoke variant that differ from those of the study."""
        return {"blocks": 6}

    def first_load(self, study: Study, workload: Workload) -> Workload:
        """Return the load with which a trial under `workload` begins."""
        return workload

    # --- the plan

    @property
    def execution(self) -> str:
        """Value of `execution` in the study of a plan, and in the trials table."""
        return MODES[self.name] or PLAIN

    def reasons_against(self, study: Study, treatments: Sequence[str], in_services: Sequence[str]) -> list[str]:
        """Return the reasons why treatments cannot be run in this mode; empty if they can.

        `in_services` are the reasons that `reasons_in_services` has returned for them.
        """
        return []

    def reasons_in_services(
        self, study: Study, treatments: Sequence[str], services: Mapping[str, ServiceSpec]
    ) -> list[str]:
        """Return the reasons in services (by name) why these treatments cannot be run in this mode."""
        return []

    def draw_order(self, treatments: Sequence[str], random: Random, before: Sequence[str]) -> list[str]:
        """Return the order of the treatments in a block, by the block's own random numbers.

        `before` is the order in the block before; it is empty in the first.
        """
        order = list(treatments)
        random.shuffle(order)
        return order

    def first_plain_blocks(self, study: Study, blocks: int) -> int:
        """Return the number of plain blocks before the blocks of this mode, whose number is `blocks`."""
        return 0

    def execution_of(self, plan: Plan, block: int) -> str:
        """Return the execution of the trials of a block (1, 2, ...): "plain" or "interleaved"."""
        return self.execution

    def runs_together(self, plan: Plan, block: int) -> bool:
        """Return whether the treatments of a block are measured together, so that it is repeated as a whole."""
        return False

    def execution_text(self, plan: Plan) -> str:
        """Return which execution the trials have, and why: "interleaved, as the study asks"."""
        return f"{self.execution}, as the study asks"

    def loads_per_trial(self, study: Study) -> int:
        """Return how many loads a trial usually has; the expected time of a plan follows from it."""
        return 1

    def certified_rule(self, plan: Plan) -> CertifiedRule | None:
        """Return when a plan certifies rates; None if it compares treatments."""
        return None

    def order_text(self, plan: Plan) -> str:
        """Return a text on the order of the trials of a block, for a dry run: it follows the number of blocks."""
        return "in random order within each"

    def plan_text(self, study: Study, load: str) -> PlanText:
        """Return the texts on a trial for `loadbook plan`; `load` describes one load: "2 s warm-up, 10 s load"."""
        return PlanText(load)

    def plan_lines(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the lines of `loadbook plan` that this mode adds, as label and text."""
        return []

    def plan_notes(self, plan: Plan, services: Mapping[str, ServiceSpec]) -> list[tuple[str, str]]:
        """Return notes of `loadbook plan` on what hosts have to give, as label and text."""
        return []

    # --- records

    def has_made(self, record: TrialRecord) -> bool:
        """Return whether a record is that of a trial of this mode."""
        return record.execution == MODES[self.name]

    def has_given_rate(self, record: TrialRecord) -> bool:
        """Return whether rate and length of a trial's load are conditions, and no results of the trial."""
        return True

    def offered_per_s(self, record: TrialRecord) -> float | None:
        """Return the requests per second that a trial asks for; None for a closed load, or if it is not known."""
        return record.workload.get("rate_per_s")

    def measures(self, plan: Plan, block: int) -> str:
        """Return by which metrics the trials of a block are compared: `ALL`, `RATES` (and costs) or `LATENCIES`."""
        return ALL

    def blocks_telling(self, plan: Plan, metric: str) -> TellingBlocks:
        """Return the blocks whose trials are compared by a metric (its name)."""
        return TellingBlocks(plan.blocks)

    # --- higher layers

    def facet(self, layer: Literal["replay", "stats", "rules", "read", "run", "page"]) -> Any:
        """Return what this mode does on a layer: `FACET` of the module of that name, or that of plain trials."""
        own = f"loadbook.modes.{self.name}.{layer}"
        has_own = importlib.util.find_spec(own) is not None
        return importlib.import_module(own if has_own else f"loadbook.modes.{PLAIN}.{layer}").FACET


@cache
def all_modes() -> tuple[Mode, ...]:
    """Return every mode, in the order in which they are asked; plain trials, which fit every record, come last."""
    names = sorted(MODES, key=lambda name: name == PLAIN)
    return tuple(importlib.import_module(f"loadbook.modes.{name}.mode").MODE for name in names)


def mode_of(study: Study) -> Mode:
    """Return the mode that a study asks for; execution = "auto" asks for the mode that it chooses."""
    return next(mode for mode in all_modes() if mode.is_asked_by(study))


def mode_of_record(record: TrialRecord) -> Mode:
    """Return the mode whose trial has this record, by what only its trials record; else that of plain trials."""
    return next(mode for mode in all_modes() if mode.has_made(record))


def mode_of_block(records: Sequence[TrialRecord]) -> Mode:
    """Return the mode of a block from the records of its trials, at least one.

    A trial that failed may lack what shows its mode, so one trial of another mode than plain decides.
    """
    modes = [mode_of_record(record) for record in records]
    return next((mode for mode in modes if mode.name != PLAIN), modes[0])


def mode_called(execution: str) -> Mode:
    """Return the mode of trials with this execution, "plain" or "interleaved", as in the trials table."""
    return next(mode for mode in all_modes() if MODES[mode.name] == execution)
