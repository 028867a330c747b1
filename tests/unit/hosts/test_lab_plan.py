"""Hosts by need: those that are there stay where they are, new ones come last, and drivers are apart from servers."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.errors import UsageError
from loadbook.hosts.lab import Lab, check_idle, cpu_masks, lab_kind, lab_lock_owners, plan_hosts, read_lab_record
from loadbook.hosts.sshd import Sshd
from loadbook.store.trial_record import write_json

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


def test_lab_on_one_cpu_has_no_cpu_masks(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert cpu_masks(SMALL) == {"driver": None, "web": None}


def test_hosts_of_a_lab_without_a_record_are_a_driver_and_a_web_host(tmp_path):
    lab = Lab.load(tmp_path, min_hosts={"web": 2})
    assert list(lab.hosts) == ["driver", "web", "web-2"] and (lab.kind, lab.min_server_cpus) == ("loopback", 1)
    assert lab_kind(tmp_path / "hosts.toml") == "" and lab.status() == [] and lab.owners() == []


def test_lab_is_loaded_as_it_was_recorded_unless_asked_otherwise(tmp_path):
    host = {"roles": ["driver"], "address": "127.0.1.1", "port": 1, "service_port": 2, "cpus": None}
    hosts = {"driver": host, "driver-2": host, "balancer": host | {"roles": ["balancer"]}}
    write_json(tmp_path / "lab.json", {"kind": "netns", "least": 3, "hosts": hosts})
    lab = Lab.load(tmp_path)
    assert list(lab.hosts) == list(hosts) and (lab.kind, lab.min_server_cpus) == ("netns", 3)
    assert lab_kind(tmp_path / "hosts.toml") == "netns"
    requested = Lab.load(tmp_path, 1, {"balancer": 0, "web": 1}, kind="loopback", min_server_cpus=2)
    assert (list(requested.hosts), requested.kind, requested.min_server_cpus) == (["driver", "web"], "loopback", 2)
    with pytest.raises(UsageError, match="the lab has no host 'wbe'") as refused:
        Lab.load(tmp_path).restore_link("wbe")
    assert refused.value.hint == "hosts: driver, driver-2, balancer"
    assert requested.status() == []  # the record is of the other kind of lab


def test_lab_record_of_an_older_version_has_only_hosts(tmp_path):
    write_json(tmp_path / "lab.json", {"driver": {"port": 1}, "web-2": {"port": 2}})
    assert read_lab_record(tmp_path) == {
        "kind": "loopback",
        "hosts": {"driver": {"port": 1, "roles": ["driver"]}, "web-2": {"port": 2, "roles": ["web"]}},
    }
    assert lab_kind(tmp_path / "hosts.toml") == "loopback"


def test_lab_host_that_never_started_is_idle(tmp_path):
    assert lab_lock_owners(tmp_path / "work") == []
    check_idle([Sshd("web", "127.0.1.1", 1, 2, None, tmp_path)])


def test_lab_in_a_folder_that_sshd_cannot_read_is_refused(tmp_path):
    with pytest.raises(UsageError, match="the lab cannot live in"):
        Lab(tmp_path / 'a"b').up()
    assert not (tmp_path / 'a"b').exists()
