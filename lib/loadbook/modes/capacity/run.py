"""One attempt at one block of a study of capacities: the searches of all treatments, in rounds of one probe for each.

The order of the treatments is drawn anew in every round. A treatment whose capacity is not known from a block before is
explored first. The search of a block begins with one bracket of rates for all treatments, from their capacities in the
blocks before (`loadbook.modes.capacity.spec_search`). A study that certifies rates has one probe for each treatment,
at the rate of its load.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from loadbook.core.errors import HostError
from loadbook.core.units import format_percent
from loadbook.execution.attempt import initial_record
from loadbook.execution.attempt_store import MAX_ATTEMPTS, PUBLISHED_STATUSES, AttemptStore
from loadbook.execution.block_runner import Begun, BlockRunner
from loadbook.execution.host_state import remove_stale_jobs
from loadbook.execution.placement import job_stem
from loadbook.execution.progress import OnEvent, Progress
from loadbook.execution.studies import limits_exceeded_by
from loadbook.execution.testbed import Testbed
from loadbook.modes.capacity.read import capacity_of
from loadbook.modes.capacity.run_probe import Probe
from loadbook.modes.capacity.spec import CapacityObjective, offered_requests
from loadbook.modes.capacity.spec_search import (
    MAX_FAILED_BLOCKS,
    Exploration,
    OneRate,
    RateSearch,
    common_bracket,
    explore,
)
from loadbook.modes.capacity.stats import MOST_MARGIN
from loadbook.modes.capacity.stats_objective import LEAST_ACHIEVED
from loadbook.modes.plain.run import PlainRun
from loadbook.store.trial_record import CapacityRecord, ProbeRecord, SearchPhase, Status, TrialRecord, read_trial
from loadbook.study.workload import Workload

MAX_UNCOUNTED = 3  # attempts at a probe that does not count, such as one whose load generator was at its limit
Search = TypeVar("Search", Exploration, OneRate, RateSearch)


class SearchedArm:
    """One attempt at the trial of one treatment: its probes so far, and the record that comes of them."""

    def __init__(self, testbed: Testbed, objective: CapacityObjective, begun: Begun) -> None:
        self.testbed, (self.planned, self.number, self.folder) = testbed, begun
        self.stem = job_stem(testbed.run, self.planned.trial, self.number)
        self.record = initial_record(testbed, self.planned, self.number)
        self.workload = testbed.plan.study.workload_of(self.planned.treatment)
        self.capacity = CapacityRecord(**objective.model_dump())
        self.retry = self.has_failed = False
        self._records: dict[str, TrialRecord] = {}  # folder of a probe -> its record

    @property
    def rates_met(self) -> list[float]:
        """Return the rates (1/s) that met the objective, ascending."""
        return sorted(probe.rate_per_s for probe in self.capacity.probes if probe.counts and probe.missed is None)

    def fail(self, status: Status, reason: str) -> None:
        """End the search with a status and its reason."""
        self.record.status, self.record.reason, self.has_failed = status, reason, True

    def new_probe(self, load: Workload) -> Probe:
        """Return the next probe, in a folder of its own."""
        folder = self.folder / f"probe-{len(self.capacity.probes) + 1:02}"
        folder.mkdir()
        return Probe(self.testbed, self.planned, self.number, folder, load, self.capacity)

    def add(self, probe: Probe, phase: SearchPhase) -> ProbeRecord:
        """Add a probe that has run, and return its record."""
        result = probe.result(phase)
        self.capacity.probes.append(result)
        self._records[result.folder] = probe.record
        return result

    def conclude(self) -> None:
        """Fill in the trial's record: that of the probe at capacity, or of the search that failed."""
        counted = [probe for probe in self.capacity.probes if probe.counts]
        met = [probe for probe in counted if probe.missed is None]
        highest = max(met, key=lambda probe: probe.rate_per_s, default=None)
        shown = highest or min(counted, key=lambda probe: probe.rate_per_s, default=None)
        self.capacity.capacity_per_s = None if self.has_failed else capacity_of(self.capacity.probes)
        failure = (self.record.status, self.record.reason) if self.has_failed else None
        if shown is not None:
            self.record = _in_folder(self._records[shown.folder], shown.folder)
        self.record.status, self.record.reason = failure or ("ok", None)
        self.record.capacity = self.capacity
        self.record.duration_s = round(sum(own.duration_s or 0.0 for own in self._records.values()), 4)


def _in_folder(record: TrialRecord, folder: str) -> TrialRecord:
    """Return a probe's record as that of the trial, whose folder holds the probe's."""

    def inside(name: str | None) -> str | None:
        return name and f"{folder}/{name}"

    def moved(parts: Sequence[Any], *names: str) -> list[Any]:
        return [part.model_copy(update={name: inside(file) for name, file in part if name in names}) for part in parts]

    drivers = [
        driver.model_copy(update={"files": {name: inside(file) for name, file in driver.files.items()}})
        for driver in moved(record.drivers, "stdout", "stderr")
    ]
    services = [
        service.model_copy(update={"config_files": [inside(file) for file in service.config_files]})
        for service in moved(record.services, "effective")
    ]
    places = {"drivers": drivers, "services": services, "files": {}}
    places |= {"monitors": moved(record.monitors, "file"), "polled": moved(record.polled, "file")}
    return record.model_copy(update=places)


class CapacityBlock:
    """One attempt at all searches of one block; `attempts` are those of its treatments, in the order of the plan.

    `known` has the capacities of each treatment in the blocks before (1/s); one without any is explored first.
    """

    def __init__(
        self,
        testbed: Testbed,
        attempts: Sequence[SearchedArm],
        known: Mapping[str, Sequence[float]],
        on_event: OnEvent,
    ) -> None:
        self.testbed, self.attempts, self.known, self.on_event = testbed, attempts, known, on_event
        study = testbed.plan.study
        assert study.capacity is not None
        self.objective = study.capacity
        self._rng = random.Random(f"loadbook capacity {testbed.plan.seed} {attempts[0].planned.block}")

    def run(self) -> None:
        """Search the capacity of every treatment, or make one start of each, and fill in the records.

        Raises
        ------
        KeyboardInterrupt : the user ended the run. Errors of the controller are raised, too.
        """
        if self.objective.is_search:
            self._search()
        else:
            self._in_rounds({arm: OneRate(arm.workload.rate_per_s) for arm in self.attempts}, "start")
        for arm in self.attempts:
            arm.conclude()

    def _search(self) -> None:
        """Search the capacity of every treatment, after an exploration of those whose capacity is not known."""
        unknown = [arm for arm in self._alive() if not self.known[arm.planned.treatment]]
        starts = {arm: arm.workload.rate_per_s or 1.0 for arm in unknown}
        explored = explore(starts, lambda begun: self._in_rounds(begun, "exploration"))
        for arm, exploration in explored.items():
            if exploration.bracket is None and not arm.has_failed:
                arm.fail("invalid", self._no_bracket_text(exploration, arm))
        if not self._alive():
            return
        brackets = [one.bracket for arm, one in explored.items() if one.bracket and not arm.has_failed]
        bracket = common_bracket(self.known.values(), brackets)
        searches = self._in_rounds({arm: RateSearch(bracket) for arm in self._alive()}, "search")
        for arm, search in searches.items():
            if search.bound and not arm.has_failed:
                tried = [probe.rate_per_s for probe in arm.capacity.probes if probe.counts and probe.phase == "search"]
                ends = f"{min(tried):,g} to {max(tried):,g} requests/s"
                outcome = "met" if search.bound == "at least" else "missed"
                text = f"every rate from {ends} {outcome} the objective, far from the capacities of the blocks before"
                arm.fail("invalid", text)

    def _alive(self) -> list[SearchedArm]:
        return [arm for arm in self.attempts if not arm.has_failed]

    def _in_rounds(self, searches: Mapping[SearchedArm, Search], phase: SearchPhase) -> dict[SearchedArm, Search]:
        """Make the probes of all arms round by round until every search has ended, and return the searches."""
        searches = dict(searches)
        while order := [arm for arm in searches if not arm.has_failed and searches[arm].next_rate is not None]:
            self._rng.shuffle(order)
            for arm in order:
                rate = searches[arm].next_rate
                assert rate is not None
                if (probe := self._probe(arm, rate, phase)) is not None:
                    searches[arm] = searches[arm].after(probe.missed is None, _margin_of_times(probe))
        return searches

    def _probe(self, arm: SearchedArm, rate_per_s: float, phase: SearchPhase) -> ProbeRecord | None:
        """Return the probe that tells whether a rate meets the objective; None if none does, which fails the arm."""
        load = self.objective.probe_load(arm.workload, rate_per_s)
        treatment, plan = arm.planned.treatment, self.testbed.plan
        if limits := list(limits_exceeded_by(plan, treatment, load, self.testbed.inventory)):
            arm.fail("invalid", f"{limits[0][0]}: {limits[0][1]}; {_met_text(arm)}")
            return None
        failures = 0
        while True:
            probe = arm.new_probe(load)
            probe.run()
            result = arm.add(probe, phase)
            self.testbed.check_restored()
            self.on_event(Progress("note", self._line(arm, result)))
            if result.counts:
                return result
            failures += 1
            if failures >= MAX_ATTEMPTS.get(result.status, MAX_UNCOUNTED):
                break
            if probe.retry:
                if not self.testbed.reconnect():
                    break
                with suppress(HostError):  # out of reach again: a resumed run removes them
                    remove_stale_jobs(self.testbed, [arm.stem])
        reason = (result.reason or "").rstrip(".")
        arm.fail(result.status, f"at {result.rate_per_s:,g} requests/s: {reason}; {_met_text(arm)}")
        return None

    def _line(self, arm: SearchedArm, probe: ProbeRecord) -> str:
        """Return a line on a probe: "t0001  large: 4,200/s met the objective, 99 % within 12.1 ms"."""
        begin = f"{arm.planned.trial}  {arm.planned.treatment}: {probe.rate_per_s:,g}/s"
        if not probe.counts:
            return f"{begin} does not count: {probe.status}: {probe.reason}"
        return f"{begin} {self._outcome_text(arm, probe)}"

    def _outcome_text(self, arm: SearchedArm, probe: ProbeRecord) -> str:
        """Return a text on how a probe ended."""
        if probe.missed == "server":
            return f"missed the objective: {probe.reason}"
        if probe.missed == "errors":
            return "missed the objective: too many errors"
        if probe.missed == "rate":
            load = self.objective.probe_load(arm.workload, probe.rate_per_s)
            offered = offered_requests(probe.rate_per_s, load.duration_s)
            in_time = round((probe.share_within or 0.0) * offered)
            least = format_percent(LEAST_ACHIEVED, decimals=0, signed=False)
            limits = f"within {1000 * self.objective.within_s:g} ms, and fewer than {least} at all"
            return f"missed the objective: {in_time:,} of {offered:,} offered requests were answered {limits}"
        took_ms, limit_ms = 1000 * self.objective.time_s(probe.margin or 0.0), 1000 * self.objective.within_s
        verb = "met" if probe.missed is None else "missed"
        answered = f"{self.objective.share_text} answered within {took_ms:.3g} ms"
        return f"{verb} the objective: {answered}, limit {limit_ms:g} ms"

    def _no_bracket_text(self, exploration: Exploration, arm: SearchedArm) -> str:
        """Return the reason why an arm's capacity was not found, with a remedy."""
        if exploration.passed is None:
            lowest = min((probe for probe in arm.capacity.probes if probe.counts), key=lambda probe: probe.rate_per_s)
            times = ", and times no longer fall with the rate" if exploration.is_flat else ""
            even = f"even {lowest.rate_per_s:,g} requests/s {self._outcome_text(arm, lowest)}{times}"
            return (
                f"no rate meets the objective: {even}; "
                "raise capacity.within_s, lower capacity.share, or begin lower (workload.rate_per_s); "
                "or other programs used the CPUs: loadbook doctor"
            )
        return f"{_met_text(arm)}, where the exploration ended: raise workload.rate_per_s, where it begins"


def _margin_of_times(probe: ProbeRecord) -> float | None:
    """Return the margin of a probe if it was missed by its times, and these are not beyond all measure."""
    is_known = probe.missed == "latency" and probe.margin is not None and abs(probe.margin) < MOST_MARGIN
    return probe.margin if is_known else None


def _met_text(arm: SearchedArm) -> str:
    """Return a text on the highest rate that met the objective so far."""
    if not arm.rates_met:
        return "no rate below it was tried, or none met the objective"
    return f"{arm.rates_met[-1]:,g} requests/s met the objective"


class CapacityBlocks(BlockRunner[CapacityBlock]):
    """Runs the blocks of a study of capacities; each begins with the capacities of those before."""

    def __init__(self, testbed: Testbed, store: AttemptStore, on_event: OnEvent) -> None:
        super().__init__(testbed, store, on_event)
        self.known: dict[str, list[float]] = {name: [] for name in testbed.plan.treatments}
        self.failed_blocks: Counter[str] = Counter()  # treatment -> blocks in which its exploration failed
        for trial, state in store.states().items():
            folder = store.paths.trial(trial)
            if state.final and state.status in PUBLISHED_STATUSES and folder.is_dir():
                self._keep(read_trial(folder))

    def _keep(self, record: TrialRecord) -> None:
        """Take over a treatment's capacity, or that its exploration found none."""
        search = record.capacity
        if search and search.capacity_per_s is not None:
            self.known[record.treatment].append(search.capacity_per_s)
        elif search and record.status == "invalid" and {probe.phase for probe in search.probes} == {"exploration"}:
            self.failed_blocks[record.treatment] += 1

    def make_block(self, begun: Sequence[Begun]) -> CapacityBlock:
        """Return the block, which explores where no capacity is known from a block before.

        A treatment whose exploration failed in `MAX_FAILED_BLOCKS` blocks is not searched again.
        """
        objective = self.testbed.plan.study.capacity
        assert objective is not None
        arms = [SearchedArm(self.testbed, objective, one) for one in begun]
        for arm in arms:
            if self.failed_blocks[arm.planned.treatment] >= MAX_FAILED_BLOCKS:
                arm.fail("invalid", f"not searched, as its exploration failed in {MAX_FAILED_BLOCKS} blocks before")
        return CapacityBlock(self.testbed, arms, self.known, self.on_event)

    def use_results(self, block: CapacityBlock) -> None:
        """Take over the capacities that a block has found."""
        for arm in block.attempts:
            self._keep(arm.record)


class CapacityRun(PlainRun):
    """What searches for capacity do on hosts."""

    def runner(self, testbed: Testbed, store: AttemptStore, on_event: OnEvent) -> CapacityBlocks:
        """Return what runs the blocks of searches."""
        return CapacityBlocks(testbed, store, on_event)

    def ended_note(self, record: TrialRecord) -> str | None:
        """Return the capacity that a trial found."""
        found = record.capacity.capacity_per_s if record.capacity else None
        return None if found is None else f"capacity {found:,.0f}/s"


FACET = CapacityRun()
