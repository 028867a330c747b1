"""A load shared among drivers adds up, whatever the numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.errors import UsageError
from loadbook.study.workload import Workload, split_load


def names(count: int) -> list[str]:
    return [f"driver-{k}" for k in range(count)]


@given(st.integers(1, 12), st.integers(1, 5000), st.integers(0, 100_000))
def test_parts_of_a_closed_load_on_several_drivers_add_up_and_are_positive(count, connections, more):
    work = Workload(tool="wrk", connections=connections, requests=connections + more, threads=2, extra=("-x",))
    if connections < count:
        with pytest.raises(UsageError, match=f"connections = {connections} cannot be shared among {count} drivers"):
            split_load(work, names(count))
        return
    shares = split_load(work, names(count))
    assert list(shares) == names(count)
    assert sum(s.connections for s in shares.values()) == connections
    assert sum(s.requests for s in shares.values()) == work.requests
    assert max(s.connections for s in shares.values()) - min(s.connections for s in shares.values()) <= 1
    for one in shares.values():
        Workload.model_validate(one.model_dump())  # a share is a load like any other
        same_load = one.model_copy(update={"connections": work.connections, "requests": work.requests})
        assert same_load == work


@given(st.integers(1, 12), st.floats(0.001, 1e7, allow_nan=False), st.integers(1, 50))
def test_parts_of_an_open_load_on_several_drivers_add_up_and_are_whole_numbers(count, rate, calls):
    for given_rate in (rate, float(int(rate) + 1)):
        work = Workload(tool="t", model="open", rate_per_s=given_rate, calls_per_connection=calls, connections=100)
        rates = [one.rate_per_s for one in split_load(work, names(count)).values()]
        assert sum(rates) == pytest.approx(given_rate, rel=1e-12)
        assert all(0 < part <= given_rate for part in rates)
        if given_rate.is_integer() and given_rate >= count:
            assert all(part.is_integer() for part in rates)
        if (given_rate / calls).is_integer() and given_rate / calls >= count:
            assert all((part / calls).is_integer() for part in rates)


def test_remainder_of_a_divided_load_goes_to_the_first_drivers():
    shares = split_load(Workload(tool="wrk", connections=50, requests=101), names(3))
    assert [(s.connections, s.requests) for s in shares.values()] == [(17, 34), (17, 34), (16, 33)]
    opened = split_load(Workload(tool="t", model="open", rate_per_s=100, calls_per_connection=10), names(3))
    assert [s.rate_per_s for s in opened.values()] == [40, 30, 30]
    work = Workload(tool="wrk")
    assert split_load(work, ["only"]) == {"only": work}
