"""Rule on shared trials: requests that are open when the next treatment has its slice."""

from __future__ import annotations

import pytest

from valid_trial import SHARED, check, named, overruns


def levels_of(mean_s: float | None, **changes: object) -> list[str]:
    samples = overruns(mean_s) if mean_s is not None else []
    return [hit.level for hit in named(check(shared=SHARED | changes, samples=samples), "slices_overrun")]


@pytest.mark.parametrize(
    ("mean_s", "levels"),
    [(0.0, []), (0.0014, []), (0.0016, ["doubt"]), (0.024, ["doubt"]), (0.026, ["invalid"]), (None, ["unchecked"])],
)
def test_backlog_at_the_end_of_slices_is_judged_by_its_share_of_a_slice(
    mean_s: float | None, levels: list[str]
) -> None:
    assert levels_of(mean_s) == levels


def test_requests_by_turns_have_no_slices_to_judge() -> None:
    assert levels_of(0.02, slice_s=None) == []
    assert not named(check(samples=overruns(0.02)), "slices_overrun")


def test_message_states_the_time_and_its_share_of_a_slice() -> None:
    (hit,) = named(check(shared=SHARED, samples=overruns(0.005)), "slices_overrun")
    message = hit.message.replace("\N{NO-BREAK SPACE}", " ")
    assert (
        "its last responses came 5 ms later than usual after the end of a slice, on average: 10 % of 50 ms" in message
    )
    assert "use longer slices, or a lower rate" in message
