"""Several works at a time: never two on a machine or of a study, in the file's order; stops, deaths, and timetables."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadbook.batch.jobs import BatchJob, ReportJob
from loadbook.batch.scheduler import Scheduler, next_startable, timetable
from loadbook.batch.worker import Worker


def work(study: str, *machines: str, here: bool = False, run_s: float = 60.0) -> BatchJob:
    return BatchJob(
        study=study,
        study_source=study,
        question="?",
        hosts=Path("h.toml"),
        subset=None,
        blocks=None,
        more=None,
        trials=1,
        run_s=run_s,
        notebooks=(),
        machines=None if here else frozenset(machines),
        reports=(ReportJob(study, study, {}),),
    )


def bar_each_other(one: BatchJob, other: BatchJob) -> bool:
    """The rule, said once more."""
    if one.study == other.study or one.machines is None or other.machines is None:
        return True
    return bool(one.machines & other.machines)


class Fake(Worker):
    """A worker that says what it is given once it is let go, and ends."""

    def __init__(self, printed: list[dict[str, Any]], code: int = 0) -> None:
        self.printed, self.exit_code, self.go, self.stops = printed, code, threading.Event(), 0

    def messages(self) -> Iterator[dict[str, Any]]:
        self.go.wait()
        yield from self.printed

    def stop(self) -> None:
        self.stops += 1
        self.exit_code = 130
        self.go.set()


class LettingGo(queue.SimpleQueue[Any]):
    """The scheduler's messages: when it waits for one, nothing else can begin, and the oldest worker is let go."""

    def __init__(self, active: dict[int, tuple[BatchJob, Worker]]) -> None:
        self.active = active

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        _, oldest = next(iter(self.active.values()))
        assert isinstance(oldest, Fake)
        oldest.go.set()
        return super().get(block, timeout)


class Hall:
    """Lanes of fakes; whoever has begun is let go when nothing else can begin, the oldest first."""

    def __init__(self, works: list[BatchJob], jobs: int = 4, more: Any = lambda work, printed: True) -> None:
        self.begun: list[str] = []
        self.together: list[set[str]] = []
        self.ended: dict[str, int] = {}
        self.fakes: dict[str, Fake] = {}
        self.more = more
        self.scheduler = Scheduler(self.start, self.printed, jobs)
        self.scheduler.messages = LettingGo(self.scheduler.active)
        self.scheduler.run(works)

    def start(self, one: BatchJob) -> Fake:
        self.begun.append(one.study)
        self.fakes[one.study] = fake = Fake([{"kind": "x", "study": one.study}])
        return fake

    def printed(self, one: BatchJob, printed: dict[str, Any]) -> bool:
        self.together.append({other.study for other, _ in self.scheduler.active.values()})
        if printed["kind"] == "ended":
            self.ended[one.study] = printed["exit_code"]
        return self.more(one, printed)


def test_scheduler_runs_jobs_on_different_machines_concurrently():
    works = [work("a", "m1"), work("b", "m2"), work("c", "m1"), work("d", "m3")]
    hall = Hall(works)
    assert hall.begun == ["a", "b", "d", "c"]
    assert {"a", "b", "d"} in hall.together
    assert not any({"a", "c"} <= those for those in hall.together)
    assert set(hall.ended) == set("abcd")


def test_scheduler_with_one_slot_keeps_the_file_order():
    hall = Hall([work("a", "m1"), work("b", "m2"), work("c", "m3")], jobs=1)
    assert hall.begun == ["a", "b", "c"]
    assert max(map(len, hall.together)) == 1


def test_scheduler_runs_local_measurements_alone():
    works = [work("a", "m1"), work("lab", here=True), work("b", "m2")]
    assert next_startable(works, [], 4) is works[0]
    assert next_startable(works[1:], works[:1], 4) is None
    assert next_startable(works[2:], works[1:2], 4) is None
    assert Hall(works).begun == ["a", "lab", "b"]


def test_scheduler_keeps_order_per_machine():
    waits, later = work("b", "m1", "m2"), work("c", "m2")
    assert next_startable([waits, later], [work("a", "m1")], 4) is None
    assert next_startable([waits, work("c", "m3")], [work("a", "m1")], 4).study == "c"


def test_scheduler_keeps_order_per_study():
    assert next_startable([work("b", "m1"), work("b", "m2")], [work("a", "m1")], 4) is None


def test_scheduler_runs_replays_beside_other_jobs():
    assert next_startable([work("b")], [work("a", "m1")], 4) is not None
    assert next_startable([work("a")], [work("a", "m1")], 4) is None


def test_scheduler_starts_nothing_after_a_fatal_failure():
    hall = Hall([work("a", "m1"), work("b", "m1")], more=lambda one, printed: printed["kind"] != "ended")
    assert (hall.begun, hall.ended) == (["a"], {"a": 0})


def test_scheduler_stop_interrupts_all_jobs():
    class Stopping(Hall):
        def printed(self, one: BatchJob, printed: dict[str, Any]) -> bool:
            if printed["kind"] == "x" and not self.scheduler.stops:
                self.scheduler.stop()
            return super().printed(one, printed)

    hall = Stopping([work("a", "m1"), work("b", "m2"), work("c", "m1")])
    assert hall.begun == ["a", "b"]
    assert hall.ended["b"] == 130
    assert {name: fake.stops for name, fake in hall.fakes.items()} == {"a": 1, "b": 1}


def test_scheduler_timetable_follows_the_same_rules():
    works = [work("a", "m1", run_s=100), work("b", "m2", run_s=30), work("c", "m1", run_s=50), work("d", here=True)]
    times = [timetable(works, 4)[id(one)] for one in works]
    assert times == [(0, 100), (0, 30), (100, 150), (150, 210)]
    assert [timetable(works, 1)[id(one)][0] for one in works] == [0, 100, 130, 180]
    left = timetable(works, 4, {id(works[0]): 10.0})
    assert (left[id(works[0])], left[id(works[2])]) == ((0, 10), (10, 60))


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_scheduler_never_runs_two_jobs_on_one_machine(jobs):
    kinds = [work("a", "m1"), work("b", "m1", "m2"), work("a", "m3"), work("lab", here=True), work("r")]
    for order in itertools.permutations(kinds):
        times = timetable(order, jobs)
        for one, other in itertools.combinations(order, 2):
            (begin, end), (start, stop) = times[id(one)], times[id(other)]
            assert not (bar_each_other(one, other) and begin < stop and start < end)
