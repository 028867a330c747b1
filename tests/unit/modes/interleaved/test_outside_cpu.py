"""CPU time outside of an arm's slices, from readings on the services' machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.modes.interleaved.read_outside_cpu import CpuSample, cpu_outside, read_cpu_samples

ROUND_S, SLICE_S = 0.1, 0.025
OWN = [(ROUND_S * k, ROUND_S * k + SLICE_S) for k in range(20)]


def readings(inside: float, outside: float, interval_s: float = 0.0125, shift_s: float = 0.0) -> list[CpuSample]:
    """Return readings of a service that uses so many CPUs in its slices and outside of them."""

    def used_s(t_s: float) -> float:
        rounds, rest_s = divmod(max(0.0, t_s), ROUND_S)
        own_s = rounds * SLICE_S + min(rest_s, SLICE_S)
        return inside * own_s + outside * (t_s - own_s)

    times_s = [shift_s + interval_s * k for k in range(int(2.5 / interval_s))]
    return [CpuSample(t_s, used_s(t_s)) for t_s in times_s]


def test_readings_are_read_by_service_without_a_line_that_was_cut() -> None:
    samples = read_cpu_samples("10.5 1000000000 -\n10.52 1500000000 7000000\n10.54 15", 2)
    assert samples == [[(10.5, 1.0), (10.52, 1.5)], [(10.52, 0.007)]]


@pytest.mark.parametrize("text", ["10.5 1\n", "10.5 1 2 3\n", "sh: perl: not found\n"])
def test_other_text_than_readings_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_cpu_samples(text, 2)


@given(
    outside=st.floats(0, 0.5), interval_s=st.floats(0.01, 0.03), shift_s=st.floats(0, 0.05), margin_s=st.floats(0, 0.01)
)
def test_cpu_time_within_slices_never_counts(
    outside: float, interval_s: float, shift_s: float, margin_s: float
) -> None:
    found = cpu_outside(readings(1.0, outside, interval_s, shift_s), OWN, margin_s)
    assert found == pytest.approx(outside, abs=1e-6)


def test_error_of_the_clocks_does_not_make_own_work_look_like_work_outside() -> None:
    late = [CpuSample(t_s + 0.006, cpu_s) for t_s, cpu_s in readings(1.0, 0.0, interval_s=0.01)]
    assert cpu_outside(late, OWN, 0.007) == pytest.approx(0, abs=1e-9)
    assert cpu_outside(late, OWN, 0.0) > 0.02


@pytest.mark.parametrize("samples", [[], readings(1.0, 0.1)[:20], readings(1.0, 0.1, interval_s=0.09)])
def test_too_few_readings_outside_of_slices_are_not_known(samples: list[CpuSample]) -> None:
    assert cpu_outside(samples, OWN, 0.0) is None


def test_cpu_time_before_the_first_slice_and_after_the_last_does_not_count() -> None:
    at_rest = [CpuSample(t_s + 1, cpu_s + 0.9) for t_s, cpu_s in readings(1.0, 0.1)]
    starting = [CpuSample(0.01 * k, 0.009 * k) for k in range(100)]
    own = [(begin_s + 1, end_s + 1) for begin_s, end_s in OWN]
    assert cpu_outside([*starting, *at_rest], own, 0.0) == pytest.approx(0.1, abs=1e-6)
