"""Rules on interleaved trials: slices that were not kept, slices without work, services that work without requests."""

from __future__ import annotations

from typing import Any

import pytest

from loadbook.validity.base import RuleHit
from valid_trial import INTERLEAVED, MEASURED_SERVICE, check, named


def hits_of(name: str, late_share: float | None = 0.0, **service: float | None) -> list[tuple[str, str]]:
    interleaved = INTERLEAVED | {"late_share": late_share}
    hits = check(interleaved=interleaved, services=[MEASURED_SERVICE | service])
    return [(hit.level, hit.message) for hit in named(hits, name)]


def test_plain_trial_has_no_slices_to_judge() -> None:
    assert not {"late_slices", "unasked_work"} & {hit.name for hit in check()}


@pytest.mark.parametrize(("share", "levels"), [(0.0, []), (0.05, []), (0.06, ["doubt"]), (None, ["unchecked"])])
def test_more_late_slices_than_allowed_are_a_doubt(share: float | None, levels: list[str]) -> None:
    assert [level for level, _ in hits_of("late_slices", share)] == levels


def test_message_on_late_slices_states_their_share_and_length() -> None:
    message = hits_of("late_slices", 0.2)[0][1].replace("\N{NO-BREAK SPACE}", " ")
    assert "20 % of its slices lasted 1.5 times the 25 ms planned" in message


@pytest.mark.parametrize(("idle", "levels"), [(0.0, []), (0.006, []), (0.007, ["doubt"]), (None, ["unchecked"])])
def test_more_service_work_without_requests_than_allowed_is_a_doubt(idle: float | None, levels: list[str]) -> None:
    """The window lasts 4 s, of which the arm was active for 1 s: 0.7 % of a CPU for 3 s is 2.1 % of its CPU second."""
    assert [level for level, _ in hits_of("unasked_work", idle_cpu_share=idle)] == levels


@pytest.mark.parametrize(("outside_s", "levels"), [(0.0, []), (0.02, []), (0.021, ["doubt"])])
def test_cpu_time_outside_of_slices_is_used_where_it_is_known(outside_s: float, levels: list[str]) -> None:
    hits = check(
        interleaved=INTERLEAVED | {"outside_cpu_s": outside_s}, services=[MEASURED_SERVICE | {"idle_cpu_share": 0.5}]
    )
    assert [hit.level for hit in named(hits, "unasked_work")] == levels


def test_work_of_several_services_is_unchecked_if_the_cpu_time_of_one_is_not_known() -> None:
    """The CPU time of the others would be taken for that of all."""
    lacking = MEASURED_SERVICE | {"service": "php", "role": "app", "cpu_s": None}
    hits = check(interleaved=INTERLEAVED | {"outside_cpu_s": 0.05}, services=[MEASURED_SERVICE, lacking])
    (hit,) = named(hits, "unasked_work")
    assert (hit.level, "php" in hit.message) == ("unchecked", True)


def test_message_on_work_outside_of_slices_states_time_and_share() -> None:
    hits = check(interleaved=INTERLEAVED | {"outside_cpu_s": 0.05}, services=[MEASURED_SERVICE])
    message = named(hits, "unasked_work")[0].message.replace("\N{NO-BREAK SPACE}", " ")
    assert "nginx used 50 ms of CPU time outside of its slices: 5.0 % of its CPU time" in message


def slices(count: int, frozen: range = range(0), length_s: float = 0.025, **of_frozen: float | None) -> list[dict]:
    """Return samples of slices 0.1 s apart; in the frozen ones nothing happens, but for what `of_frozen` says."""
    usual = {"slice": length_s, "received_per_s": 5e6, "generator_cpu": 0.6, "service_cpu": 1.0}
    idle = {"slice": length_s, "received_per_s": 0.0, "generator_cpu": 0.0, "service_cpu": 0.0}
    return [
        {"driver": "driver-1", "series": "slice", "metric": metric, "x": 0.1 * k, "value": value}
        for k in range(count)
        for metric, value in (idle | of_frozen if k in frozen else usual).items()
        if value is not None and metric not in [name for name, v in of_frozen.items() if v is None]
    ]


def stalls(samples: list[dict], **changes: Any) -> list[RuleHit]:
    return named(check(interleaved=INTERLEAVED, samples=samples, **changes), "stall")


@pytest.mark.parametrize(("frozen", "levels"), [(range(0), []), (range(5, 8), ["doubt"]), (range(5, 10), ["invalid"])])
def test_slices_in_which_nothing_was_served_are_a_stall(frozen: range, levels: list[str]) -> None:
    """40 of 42 slices count: more than a tenth of them makes the trial invalid."""
    assert [hit.level for hit in stalls(slices(42, frozen))] == levels


def test_message_on_a_stall_states_number_and_length_of_slices() -> None:
    message = stalls(slices(42, range(10, 20)))[0].message.replace("\N{NO-BREAK SPACE}", " ")
    assert "nothing was served in 10 of 40 slices (250 ms of 1 s), first 1 s after its begin" in message


def test_service_that_works_on_without_answering_is_slow_and_not_frozen() -> None:
    """A garbage collector uses a CPU for several slices."""
    assert stalls(slices(42, range(10, 20), service_cpu=1.0)) == []


def test_other_traffic_of_the_driver_hides_no_stall() -> None:
    assert [hit.level for hit in stalls(slices(42, range(10, 20), received_per_s=2e6))] == ["invalid"]


def test_slices_in_which_other_programs_had_the_cpu_are_no_stall() -> None:
    assert stalls(slices(42, range(10, 20), waiting=0.9)) == []
    assert [hit.level for hit in stalls(slices(42, range(10, 20), waiting=0.1))] == ["invalid"]


def test_first_and_last_slice_are_not_judged() -> None:
    assert stalls(slices(42, range(1))) == [] == stalls(slices(42, range(41, 42)))


@pytest.mark.parametrize(("idle_s", "levels"), [((9.0, 9.0), []), ((0.9, 2.2), ["invalid"])])
def test_service_on_another_machine_is_judged_by_the_samples_of_its_host(
    idle_s: tuple[float, float], levels: list[str]
) -> None:
    samples = slices(42, range(10, 22), service_cpu=None)
    assert [hit.level for hit in stalls(samples, idle_s=idle_s)] == levels


def test_stall_shorter_than_the_samples_of_another_machine_is_a_doubt() -> None:
    assert [hit.level for hit in stalls(slices(12, range(5, 7), service_cpu=None))] == ["doubt"]


def test_slices_of_earlier_versions_are_not_judged() -> None:
    (hit,) = stalls([])
    assert hit.level == "unchecked"


def test_two_long_slices_of_a_slow_service_are_no_stall() -> None:
    assert stalls(slices(4, length_s=0.543)) == []
