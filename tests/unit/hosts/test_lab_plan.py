"""Hosts by need: those that are there stay where they are, new ones come last, and drivers are apart from servers."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.errors import UsageError
from loadbook.hosts.lab import cpu_masks, plan_hosts

SMALL = {"driver": ("driver",), "web": ("web",)}
counts = st.dictionaries(st.sampled_from(["driver", "web", "balancer", "app", "store"]), st.integers(1, 4))


def test_lab_plan_appends_hosts_that_a_study_needs():
    hosts = plan_hosts(SMALL, {}, {"web": 3, "balancer": 1})
    assert list(hosts) == ["driver", "web", "web-2", "web-3", "balancer"]
    assert hosts["web-3"] == ("web",)
    assert plan_hosts(hosts, {}, {"web": 1, "app": 1}) == hosts | {"app": ("app",)}


def test_lab_plan_removes_hosts_only_when_a_count_is_given():
    hosts = plan_hosts(SMALL, {}, {"web": 3, "balancer": 1})
    assert list(plan_hosts(hosts, {"web": 1, "balancer": 0}, {})) == ["driver", "web"]


@pytest.mark.parametrize("exactly", [{"driver": 0}, {"web": 99}])
def test_lab_plan_without_driver_or_with_too_many_hosts_is_refused(exactly):
    with pytest.raises(UsageError, match="a lab has a driver and at most 32 hosts"):
        plan_hosts(SMALL, exactly, {})


@given(first=counts, then=counts)
def test_growing_lab_keeps_every_host_and_address(first, then):
    before = plan_hosts(SMALL, {}, first)
    after = plan_hosts(before, {}, then)
    assert list(after)[: len(before)] == list(before)
    for role, count in then.items():
        assert sum(role in roles for roles in after.values()) >= count


@given(needs=counts, cpus=st.sets(st.integers(0, 20), min_size=2, max_size=12))
def test_lab_cpus_separate_drivers_from_servers(needs, cpus):
    hosts = plan_hosts(SMALL, {}, needs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: cpus)
        masks = cpu_masks(hosts)
    assert all(mask and set(mask) <= cpus for mask in masks.values())
    loading = {cpu for alias, mask in masks.items() if "driver" in hosts[alias] for cpu in mask}
    serving = {cpu for alias, mask in masks.items() if "driver" not in hosts[alias] for cpu in mask}
    assert loading.isdisjoint(serving)


def test_lab_cpus_are_divided_by_host_or_role_or_drivers_and_servers(monkeypatch):
    hosts = plan_hosts(SMALL, {}, {"web": 2, "balancer": 1})

    def masks(*cpus: int):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cpus))
        return list(cpu_masks(hosts).values())

    assert masks(0, 1, 2, 3) == [(0,), (1,), (2,), (3,)]
    assert masks(0, 1, 2) == [(0,), (1,), (1,), (2,)]
    assert masks(0, 1) == [(0,), (1,), (1,), (1,)]


def test_lab_has_no_cpu_masks_if_servers_would_get_too_few_cpus(monkeypatch):
    hosts = plan_hosts(SMALL, {}, {"app": 1})

    def masks(cpus, least):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
        return cpu_masks(hosts, least)

    assert set(masks(2, 2).values()) == {None}
    assert masks(2, 4) == masks(2, 1)  # not to be had: who names them is told so
    assert masks(6, 2) == masks(6, 1) == {"driver": (0, 1), "web": (2, 3), "app": (4, 5)}
