"""Where services are placed, on which ports, and what delays packets where a kernel cannot."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from loadbook.core.errors import UsageError
from loadbook.execution.placement import job_names, needs_userspace_delay, place_services, start_order, uses_delay
from loadbook.hosts.host import CommandResult
from loadbook.hosts.inventory import HostEntry, HostsFile
from loadbook.services import load_service
from loadbook.study.plan import make_plan
from loadbook.study.reader import read_study

STUDY = """
name = "placed"
question = "where?"
metric = "ok_per_s"
margin = 0.02
baseline = "near"
blocks = 2
[workload]
tool = "wrk"
connections = 40
target = "balancer"
duration_s = 8
[roles.driver]
[roles.balancer]
service = "nginx"
vars = {{ upstream = "http" }}
backends = "web"
[roles.web]
service = "nginx"
[factors]
nodes = {{ role = "web", of = "hosts", levels = [1, 2] }}
{factor}
[treatments.near]
set = {{ nodes = 1 }}
[treatments.far]
set = {{ nodes = 2{far} }}
"""
DELAY = 'way = {{ role = "driver", of = "{what}", levels = [0, {level}] }}'


@pytest.fixture
def plan(tmp_path):
    def read(what: str = "", level: float = 0.0):
        factor, far = (DELAY.format(what=what, level=level), f", way = {level}") if what else ("", "")
        (tmp_path / "placed.toml").write_text(STUDY.format(factor=factor, far=far))
        return make_plan(read_study(tmp_path / "placed.toml"))

    return read


def hosts_of(allow=(), drivers=("load",)):
    entries = {alias: HostEntry(roles=("driver",), allow=allow) for alias in drivers}
    entries |= {alias: HostEntry(roles=("web",)) for alias in ("one", "two", "three")}
    return HostsFile(hosts=entries | {"both": HostEntry(roles=("balancer", "web"), service_port=80)})


def test_roles_on_one_host_have_consecutive_ports_and_backends_start_first(plan):
    study = plan().study
    placed = place_services(study, plan().treatments, hosts_of(), {"nginx": load_service("nginx")}, ("load",))
    assert [(p.role, p.alias, p.port) for p in placed] == [
        ("balancer", "both", 80), ("web", "one", 18080), ("web", "two", 18080),
    ]  # fmt: skip
    only = HostsFile(hosts={"both": HostEntry(roles=("balancer", "web"), service_port=80)})
    ports = [p.port for p in place_services(study, ["near"], only, {"nginx": load_service("nginx")}, ("load",))]
    assert ports == [80, 81] and start_order(study)[-2:] == ["web", "balancer"]


def test_delay_proxy_is_placed_on_the_first_driver(plan):
    specs = {name: load_service(name) for name in ("nginx", "delay-line")}
    *_, line = place_services(plan().study, ["near"], hosts_of(), specs, ("load", "other"))
    assert (line.role, line.alias, line.port, line.mode) == ("line", "load", 18080, "managed")


def test_service_that_changes_its_whole_host_says_so(plan):
    (placed, *_) = place_services(plan().study, ["near"], hosts_of(), {"nginx": load_service("nginx")}, ("load",))
    assert not placed.changes_host and placed.mode == "managed" and placed.tables == ()
    specs = {"nginx": load_service("nft-dnat")}
    (kernel, *_) = place_services(plan().study, ["near"], hosts_of(), specs, ("load",))
    assert kernel.changes_host and kernel.tables and all("80" in table for table in kernel.tables)


@pytest.mark.parametrize(
    ("what", "level", "allow", "netem", "drivers", "needed"),
    [
        ("", 0.0, (), 1, ("load",), False),
        ("delay_ms", 5, (), 0, ("load",), True),
        ("delay_ms", 5, ("tc",), 1, ("load",), True),
        ("delay_ms", 5, ("tc",), 0, ("load",), False),
        ("delay_ms", 5, ("tc",), 0, ("load", "other"), False),
        ("delay_ms", 5, (), 0, ("load", "other"), "one driver only"),
        ("loss", 0.1, ("tc",), 1, ("load",), "only be made by the kernel"),
        ("loss", 0.1, ("tc",), 0, ("load",), False),
    ],
)
def test_delay_is_made_in_userspace_only_where_no_kernel_can(plan, what, level, allow, netem, drivers, needed):
    planned, inventory = plan(what, level), hosts_of(allow, drivers)
    hosts = dict.fromkeys(drivers, SimpleNamespace(script=lambda *_, timeout_s: CommandResult(netem, b"", b"")))
    assert uses_delay(planned.study, planned.treatments) is bool(what)
    if isinstance(needed, bool):
        assert needs_userspace_delay(planned, hosts, inventory, drivers) is needed
        return
    with pytest.raises(UsageError, match=needed) as refused:
        needs_userspace_delay(planned, hosts, inventory, drivers)
    assert 'allow = ["tc"]' in refused.value.hint


def test_job_that_restores_settings_is_the_last_of_an_attempt():
    assert job_names("r-t1-a1", ["web"]) == [f"r-t1-a1-{part}" for part in ("load", "monitor", "web", "guard")]
