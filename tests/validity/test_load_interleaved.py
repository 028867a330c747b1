"""Rules on interleaved trials: slices that were not kept, services that work without requests."""

from __future__ import annotations

import pytest

from valid_trial import check, named

INTERLEAVED = {
    "arm": 0, "beside": ["a", "b"], "slice_s": 0.025, "gap_s": 0.001, "slices": "slices", "active_s": 1.0,
    "late_share": 0.0,
}  # fmt: skip
SERVICE = {
    "host": "web-1", "role": "web", "service": "nginx", "config_sha256": "0" * 64, "live": True, "cpus": [0],
    "cpu_s": 1.0, "idle_cpu_share": 0.0,
}  # fmt: skip


def hits_of(name: str, late_share: float | None = 0.0, **service: float | None) -> list[tuple[str, str]]:
    interleaved = INTERLEAVED | {"late_share": late_share}
    hits = check(interleaved=interleaved, services=[SERVICE | service])
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
