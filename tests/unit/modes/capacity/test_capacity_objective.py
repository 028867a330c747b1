"""Objective of a study of capacities: its load of a probe, and mistakes in the study file."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.errors import StudyError, UsageError
from loadbook.execution.studies import load_study
from loadbook.modes.capacity.spec import CapacityObjective, probe_rate
from loadbook.modes.capacity.spec_search import RESOLUTION
from loadbook.study.plan import make_plan, parse_plan, study_sha256
from loadbook.study.reader import find_study
from loadbook.study.workload import Workload
from recorded_run import with_studies

STUDY = """
schema = 1
name = "sustained"
question = "How much load does each sustain within 20 ms?"
baseline = "small"
blocks = 6
{top}
[capacity]
within_s = 0.02
{capacity}
[roles.driver]
[roles.web]
service = "go-app"
vars = {{ hold_ms = 10, slots = 2 }}
[workload]
tool = "vegeta"
model = "open"
rate_per_s = 100
{load}
[factors]
slots = {{ levels = [2, 4] }}
[treatments.small]
[treatments.large]
set = {{ slots = 4 }}
{treatment}
"""


@pytest.fixture
def problems_of(tmp_path: Path):
    """A function that returns the problems of a study of capacities with more lines in its tables."""
    layout = with_studies(tmp_path / "home")

    def read(**lines: str) -> dict[str, str]:
        text = STUDY.format(**{"top": "", "capacity": "", "load": "", "treatment": ""} | lines)
        (layout.studies / "sustained.toml").write_text(text)
        try:
            load_study(layout, "sustained")
        except StudyError as error:
            return {problem.path: problem.message for problem in error.problems}
        return {}

    read.layout = layout  # type: ignore[attr-defined]
    return read


def test_study_with_an_objective_compares_capacities_and_is_planned_as_a_search(problems_of) -> None:
    assert problems_of() == {}
    study = find_study(problems_of.layout.studies, "sustained")
    plan = make_plan(study)
    assert study.metric == "capacity_per_s"
    assert plan.mode.name == "capacity" and plan.mode.runs_together(plan, 1)
    assert "search for the capacity" in plan.execution_text
    again = parse_plan(plan.to_json(), "plan.json")
    assert again == plan and study_sha256(again.study) == study_sha256(plan.study)


@pytest.mark.parametrize(
    ("lines", "path", "message"),
    [
        ({"capacity": "share = 1.0"}, "capacity.share", "less than 1"),
        ({"capacity": "errors = 1.0"}, "capacity.errors", "less than 1"),
        ({"capacity": 'within = "20 ms"'}, "capacity.within", "within_s"),
        ({"top": 'metric = "ok_per_s"'}, "metric", "leave it out"),
        ({"top": 'execution = "interleaved"'}, "execution", "leave it out"),
        ({"load": "timeout_s = 0.02"}, "workload.timeout_s", "longer than capacity.within_s"),
        ({"load": "requests = 1000"}, "workload.requests", "length of each probe"),
        ({"load": 'arrivals = "users"'}, "workload.arrivals", "users slow down with the server"),
        ({"treatment": "workload = { timeout_s = 0.01 }"}, "workload.timeout_s", "longer than capacity.within_s"),
        ({"treatment": "workload = { rate_per_s = 200 }"}, "treatments.large.workload.rate_per_s", "set by the search"),
    ],
)
def test_mistakes_are_named_with_their_remedy(problems_of, lines: dict[str, str], path: str, message: str) -> None:
    found = problems_of(**lines)
    assert path in found and message in found[path], found


CERTIFY = "certified_share = 0.9"


def test_study_that_certifies_rates_may_set_them_and_has_enough_starts_for_one_miss(problems_of) -> None:
    assert problems_of(top="", capacity=CERTIFY, treatment="workload = { rate_per_s = 200 }") == {
        "blocks": "6 starts cannot show that 90 % of starts sustain a rate: at least 29, and 46 if one may miss the "
        "objective"
    }
    path = problems_of.layout.studies / "sustained.toml"
    path.write_text(path.read_text().replace("blocks = 6\n", ""))
    study = find_study(problems_of.layout.studies, "sustained")
    assert (study.metric, study.blocks, study.notebooks[0]) == ("objective_time", 46, "certified_rates")
    assert study.workload_of("large").rate_per_s == 200
    plan = make_plan(study)
    assert "one start of each treatment" in plan.execution_text
    searched = study.model_copy(update={"capacity": CapacityObjective(within_s=0.02)})
    assert plan.trial_s == pytest.approx(make_plan(searched).trial_s / 6)
    again = parse_plan(plan.to_json(), "plan.json")
    assert again == plan and study_sha256(again.study) == study_sha256(plan.study)
    smoke = find_study(problems_of.layout.studies, "sustained-smoke")
    assert smoke.capacity is not None
    assert (smoke.blocks, smoke.capacity.certified_share, smoke.capacity.least_starts) == (5, 0.5, 5)


@pytest.mark.parametrize(
    ("lines", "path", "message"),
    [
        ({"capacity": "certified_share = 1.0"}, "capacity.certified_share", "at most 0.99"),
        ({"capacity": CERTIFY, "top": 'metric = "capacity_per_s"'}, "metric", "is objective_time"),
        ({"capacity": CERTIFY, "top": "stopping = { rule = 'always-valid' }"}, "stopping", "fixed number"),
        ({"capacity": CERTIFY, "load": 'arrivals = "users"'}, "workload.arrivals", "users slow down"),
    ],
)
def test_mistakes_in_a_study_that_certifies_are_named(
    problems_of, lines: dict[str, str], path: str, message: str
) -> None:
    found = problems_of(**lines)
    assert path in found and message in found[path], found


def test_plan_says_how_many_starts_may_miss(problems_of) -> None:
    objective = CapacityObjective(within_s=0.02, certified_share=0.9)
    texts = [objective.certified_if_text(starts).replace("\xa0", " ") for starts in (20, 29, 46, 70)]
    assert texts[0] == "never: 20 starts are too few for 90 %, which needs 29"
    assert [text.partition(" the objective")[0] for text in texts[1:]] == [
        "if none of 29 starts misses", "if at most 1 of 46 starts misses", "if at most 2 of 70 starts misses"
    ]  # fmt: skip


def test_tools_that_do_not_tell_every_time_are_refused_and_able_ones_named(problems_of) -> None:
    found = problems_of(load="", top="")
    assert found == {}
    path = problems_of.layout.studies / "sustained.toml"
    path.write_text(path.read_text().replace("vegeta", "oha"))
    with pytest.raises(StudyError, match=r"oha does not tell the time of every request.*tools that can: k6, vegeta"):
        load_study(problems_of.layout, "sustained")
    path.write_text(path.read_text().replace("oha", "k6"))
    assert load_study(problems_of.layout, "sustained").workload.tool == "k6"


def test_the_metric_asks_for_an_objective(problems_of) -> None:
    problems_of(top='metric = "capacity_per_s"')
    path = problems_of.layout.studies / "sustained.toml"
    path.write_text(path.read_text().replace("[capacity]\nwithin_s = 0.02\n", ""))
    with pytest.raises(StudyError, match=r"needs a table \[capacity\]"):
        find_study(problems_of.layout.studies, "sustained")


def test_a_plan_cannot_be_interleaved_or_end_before_a_block(problems_of) -> None:
    problems_of()
    with pytest.raises(UsageError, match="at least one block"):
        make_plan(find_study(problems_of.layout.studies, "sustained"), blocks=0)


def test_smoke_variant_has_a_share_that_short_probes_can_tell(problems_of) -> None:
    problems_of()
    study = find_study(problems_of.layout.studies, "sustained-smoke")
    assert study.capacity is not None and study.capacity.share == 0.95
    assert (study.blocks, study.capacity.probe_s(1000, study.workload.duration_s)) == (5, 1.0)


@given(st.floats(0.01, 1e6))
def test_rate_of_a_probe_is_close_to_the_search_and_whole_in_an_hour(rate: float) -> None:
    found = probe_rate(rate)
    assert abs(found - rate) <= max(0.001 * rate, 0.0005)
    assert abs(found / rate - 1) < RESOLUTION / 5 or rate < 1
    assert abs(Fraction(found).limit_denominator(3600) - Fraction(found)) <= Fraction(found) / 10**6


@given(st.floats(0.5, 0.9999), st.floats(0.001, 5), st.floats(0.1, 1e6))
def test_probe_lasts_long_enough_for_its_tail_and_its_limit(share: float, within_s: float, rate: float) -> None:
    objective = CapacityObjective(within_s=within_s, share=share)
    load: Any = Workload(tool="vegeta", model="open", rate_per_s=1, duration_s=3)
    probe = objective.probe_load(load, rate)
    assert probe.duration_s >= max(3, 10 * within_s * (1 - 1e-6))
    assert probe.duration_s * probe.rate_per_s * (1 - share) >= 20 * (1 - 1e-6)
    assert probe.max_connections >= max(load.connections, 5 * within_s * probe.rate_per_s)
    assert objective.probe_load(load.model_copy(update={"max_connections": 70}), rate).max_connections == 70
