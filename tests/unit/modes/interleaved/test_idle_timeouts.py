"""Idle time-outs of services against the pauses of interleaved load generators."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook.core.errors import StudyError, UsageError
from loadbook.core.units import NBSP
from loadbook.execution.studies import load_study, plan_study
from loadbook.modes.interleaved.services import idle_timeout_reasons
from loadbook.modes.interleaved.spec import SliceLengths, longest_idle_s, slices_for_latency
from loadbook.services import ServiceSpec, known_services, load_service
from loadbook.store.paths import Layout
from loadbook.study.model import Study
from recorded_run import with_studies

SPECS = {name: load_service(name) for name in known_services()}
SECOND = SliceLengths(1.0, 0.1)


def study(service: str, arms: int = 4, load: dict | None = None, **variables: object) -> Study:
    return Study.model_validate({
        "schema": 1, "name": "s", "question": "Which one?", "baseline": "a0",
        "roles": {"driver": {}, "web": {"service": service, "vars": variables}},
        "workload": {"tool": "wrk", "target": "web"} | (load or {}),
        "treatments": {f"a{number}": {} for number in range(arms)},
    })  # fmt: skip


def reasons(tested: Study, lengths: SliceLengths) -> list[str]:
    return idle_timeout_reasons(tested, list(tested.treatments), lengths, SPECS)


def test_default_of_httpd_is_too_short_for_slices_of_a_second() -> None:
    (reason,) = reasons(study("httpd"), SECOND)
    assert reason.replace(NBSP, " ") == (
        "web closes connections after 5 s without requests (treatment a0), and the load generators of 4 treatments "
        "are stopped for up to 6.7 s"
    )
    assert reasons(study("httpd"), slices_for_latency(0.0)) == []
    assert reasons(study("httpd", keepalive_timeout=7), SECOND) == []


@pytest.mark.parametrize(
    ("tested", "found"),
    [
        (study("nginx"), 0),
        (study("nginx", keepalive_timeout=6), 1),
        (study("nginx", keepalive_timeout=0), 0),
        (study("nginx", load={"keepalive": False}, keepalive_timeout=6), 0),
        (study("haproxy", arms=30), 1),
        (study("node-app"), 0),
        (study("go-app", arms=30), 0),
    ],
    ids=["default", "shorter", "no idle connections", "a connection per request", "haproxy", "node", "go: none"],
)
def test_idle_timeout_shorter_than_the_longest_pause_is_a_reason(tested: Study, found: int) -> None:
    assert len(reasons(tested, SECOND)) == found


def test_pause_of_the_longest_slices_counts_if_blocks_have_several_lengths() -> None:
    short = study("nginx", keepalive_timeout=6)
    lengths = short.model_copy(update={"slices": (0.05, 1.0)}), short.model_copy(update={"slices": (0.05,)})
    assert [len(reasons(one, slices_for_latency(0.0))) for one in lengths] == [1, 0]


def test_longest_idle_time_has_two_slices_of_every_other_arm() -> None:
    assert longest_idle_s(SliceLengths(0.1, 0.01, 0.05), 3) == pytest.approx(2 * (2 * 0.1 + 2 * 0.01) + 0.01)


def test_idle_timeout_names_a_variable_of_its_service() -> None:
    raw = SPECS["nginx"].model_dump() | {"idle_timeout": {"var": "nothing", "default_s": 5}}
    with pytest.raises(ValueError, match=r"idle_timeout.var: nothing is not one of the vars"):
        ServiceSpec.model_validate(raw)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = with_studies(tmp_path)
    text = 'include = "aa.toml"\nname = "short"\nslices = [0.3]\n[roles.web.vars]\nkeepalive_timeout = 1\n'
    third = '[treatments.more]\nsame_as = "baseline"\n'
    (made.studies / "short.toml").write_text(text + third)
    (made.studies / "asked.toml").write_text(f'execution = "interleaved"\n{text}{third}'.replace("short", "asked"))
    return made


def test_plan_is_plain_where_a_service_closes_connections_in_the_pauses(layout: Layout) -> None:
    plan = plan_study(layout, load_study(layout, "short"))
    assert plan.mode.name == "plain"
    assert f"instead of interleaved: web closes connections after 1{NBSP}s without requests" in plan.execution_text
    with pytest.raises(UsageError, match="cannot be run in interleaved blocks: web closes connections"):
        plan_study(layout, load_study(layout, "asked"))


def test_unknown_service_is_reported_before_its_timeout_is_asked_for(layout: Layout) -> None:
    (layout.studies / "short.toml").write_text('include = "aa.toml"\nname = "short"\n[roles.web]\nservice = "nginxx"\n')
    with pytest.raises(StudyError, match="no service"):
        load_study(layout, "short")
