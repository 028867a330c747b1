"""Which two runs may be compared, which treatments are one thing in both, and what remains in doubt."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from loadbook.analyses.compare_runs import compute
from loadbook.core.errors import UsageError
from loadbook.store.paths import RunPaths
from loadbook.store.run_record import RunConditions, condition_changes
from loadbook.store.tables import read_run_conditions
from loadbook.study.model import Study
from recorded_run import FIXTURE
from run_records import changed_record, make_run_record


@dataclass
class Maker:
    """Makes runs that are like the recorded one but for what is asked."""

    record: RunConditions

    def run(self, run: str, study: Callable[[dict[str, Any]], Any] | None = None, **run_json: Any) -> RunConditions:
        spec = self.record.study.model_dump(mode="json", by_alias=True)
        if study:
            study(spec)
        reported = changed_record(self.record.run_record, run=run, **run_json)
        return RunConditions(
            Study.model_validate_json(json.dumps(spec)), self.record.plan, reported, copy.deepcopy(self.record.facts)
        )


@pytest.fixture(scope="module")
def make() -> Maker:
    raw = next(FIXTURE.iterdir())
    return Maker(read_run_conditions(RunPaths(raw, raw)))


def refused(older: RunConditions, newer: RunConditions, **requested: str) -> str:
    with pytest.raises(UsageError) as caught:
        compute.check_comparable(older, newer, **requested)
    assert caught.value.hint
    return caught.value.message


def test_two_runs_of_one_study_are_comparable(make: Maker) -> None:
    compute.check_comparable(make.run("a"), make.run("b"))


def test_runs_of_different_studies_are_refused(make: Maker) -> None:
    printed = refused(make.run("a"), make.run("b", lambda spec: spec.update(name="other")))
    assert printed == "run a is of study 'recorded', run b is of study 'other'"


def test_runs_of_plain_and_interleaved_trials_are_refused(make: Maker) -> None:
    plain, interleaved = make.run("a"), make.run("b", lambda spec: spec.update(execution="interleaved"))
    printed = refused(plain, interleaved)
    assert printed.startswith("run a has plain trials, run b has interleaved ones: ")
    assert refused(interleaved, plain).startswith("run b has interleaved trials, run a has plain ones: ")
    compute.check_comparable(interleaved, make.run("c", lambda spec: spec.update(execution="interleaved")))


def test_latencies_of_plain_blocks_are_comparable_with_those_of_a_plain_run(make: Maker) -> None:
    plain, mixed = make.run("a"), make.run("b", lambda spec: spec.update(execution="interleaved"))
    mixed = replace(mixed, plan=replace(mixed.plan, latency_blocks=6))
    compute.check_comparable(plain, mixed, metric="latency p99")
    assert refused(plain, mixed).startswith("run a has plain trials, run b has interleaved ones: ")


def test_run_and_its_replay_are_not_compared(make: Maker) -> None:
    assert "those of run a" in refused(make.run("a"), make.run("b", replay="a"))
    assert "those of run x" in refused(make.run("a", replay="x"), make.run("b", replay="x"))
    compute.check_comparable(make.run("a", replay="x"), make.run("b", replay="y"))


def test_copied_run_is_refused(make: Maker) -> None:
    rows = {"trial": ["t1", "t2"], "driver": ["*", "*"], "metric": "ok_per_s", "statistic": "value"}
    a, b = make_run_record(run="a"), make_run_record(run="b")
    one = SimpleNamespace(run_record=a, measurements=pd.DataFrame(rows | {"value": [1.0, 2.0]}))
    other = SimpleNamespace(run_record=b, measurements=pd.DataFrame(rows | {"value": [1.0, 2.5]}))
    compute.check_not_copies(one, other)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="all 2 values are equal"):
        compute.check_not_copies(one, SimpleNamespace(run_record=b, measurements=one.measurements[::-1]))  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), [("metric", "latency"), ("baseline", "auto-nopush")])
def test_runs_with_different_metrics_need_a_metric_chosen_by_the_user(make: Maker, name: str, value: str) -> None:
    older, newer = make.run("a"), make.run("b", lambda spec: spec.update({name: value}))
    assert f"the study's {name} was" in refused(older, newer)
    compute.check_comparable(older, newer, **{name: value})


def test_runs_without_common_treatments_are_refused(make: Maker) -> None:
    older, newer = make.run("a"), make.run("b")
    newer = replace(newer, plan=replace(newer.plan, treatments=("p1", "epoll")))
    assert "no treatment in common" in refused(older, newer)


def test_treatment_changed_between_runs_is_not_compared(make: Maker) -> None:
    def other(spec: dict[str, Any]) -> None:
        spec["treatments"]["auto-nopush"]["set"] = {"tcp_nodelay": "off"}

    found = compute.changed_treatments(make.run("a"), make.run("b", other))
    assert list(found) == ["auto-nopush"]
    assert "tcp_nopush unset → on in the older run, as the baseline in the newer" in found["auto-nopush"]


def test_runs_with_changed_common_setup_are_compared_with_a_doubt(make: Maker) -> None:
    def busier(spec: dict[str, Any]) -> None:
        spec["workload"]["connections"] = 100
        spec["roles"]["web"]["vars"]["page_bytes"] = 50
        spec["workload"]["expect_bytes"] = 50

    older, newer = make.run("a"), make.run("b", busier)
    assert compute.changed_treatments(older, newer) == {}
    reported = list(compute.comparison_caveats(older, newer, condition_changes(older, newer)))
    assert [title for title, _ in reported] == ["Other load or set-up", "A difference between two runs has no cause"]
    assert "workload.connections" in reported[0][1]


def test_compare_runs_doubts_state_which_run_they_concern(make: Maker) -> None:
    older = make.run("a", imported={"folder": "f", "conditions": "c.csv", "timed": True})
    newer = make.run("b", lambda spec: spec.update(margin=0.05), replay="x", ended=None)
    newer = replace(newer, plan=replace(newer.plan, added=3))
    reported = [f"{title}: {text}" for title, text in compute.comparison_caveats(older, newer, [])]
    assert reported[0].startswith("The older run was imported: ")
    assert reported[1] == "The newer run is a replay: of run x: nothing was measured anew"
    assert reported[2].startswith("The newer run did not end: ")
    assert reported[3].startswith("The newer run is exploratory: 3 blocks were added after looking")
    assert "2\u00a0%, the newer 5\u00a0%; judged by the smaller" in reported[4]
    assert len(reported) == 6
