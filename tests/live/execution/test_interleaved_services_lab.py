"""Interleaved blocks in the lab with every service that comes with loadbook, alone and behind a balancer."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from controller_processes import jobs_left
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.hosts.shell import search_path
from loadbook.ingestion.ingest import ingest
from loadbook.store import trial_record
from loadbook.store.tables import load_run
from local_host import LocalHost
from loopback_labs import own_lab
from ports import kept_port
from recorded_run import with_studies
from running_services import running

STUDY = """
schema = 1
name = "small"
question = "Do equal treatments take turns?"
baseline = "first"
blocks = 1
execution = "interleaved"

[workload]
tool = "wrk"
target = "front"
path = "/index.html"
connections = 2
duration_s = 1.0
warmup_s = 0.3

[reset]
time_wait_sockets = 1000000

# where these run, driver and servers may share two CPUs with other work; with two connections, slices stay below 1 s
# as long as the slowest service answers 40 times a second
[validity]
driver_cpu = 1.0

[roles.driver]
%s
[treatments.first]
[treatments.second]
same_as = "first"
"""
HOSTS = {"driver": ("driver",), "front": ("front",), "node": ("behind",), "node-2": ("behind",)}
# services -> their programs, their hosts, and the roles
SERVICES: dict[str, tuple[list[str], set[str], str]] = {
    "httpd": (["apache2"], {"front"}, '[roles.front]\nservice = "httpd"\n'),
    "go": (["go"], {"front"}, '[roles.front]\nservice = "go-app"\n'),
    "node and redis": (
        ["node", "redis-server"],
        {"front", "node"},
        '[roles.front]\nservice = "node-app"\nbackends = "behind"\n[roles.behind]\nservice = "redis"\n',
    ),
    "haproxy before nginx": (
        ["haproxy"],
        {"front", "node", "node-2"},
        '[roles.front]\nservice = "haproxy"\nbackends = "behind"\n[roles.behind]\nservice = "nginx"\nhosts = 2\n',
    ),
    "nginx before go": (
        ["go"],
        {"front", "node", "node-2"},
        '[roles.front]\nservice = "nginx"\nbackends = "behind"\nvars = { upstream = "http" }\n'
        '[roles.behind]\nservice = "go-app"\nhosts = 2\n',
    ),
}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Lab]:
    with own_lab(hosts=HOSTS) as own:
        yield own


@pytest.mark.parametrize("services", SERVICES)
def test_services_take_turns(nodes, tmp_path, services):
    programs, hosts, roles = SERVICES[services]
    if missing := [program for program in programs if not shutil.which(program, path=search_path())]:
        pytest.skip(f"needs {missing[0]}")
    layout = with_studies(tmp_path / "home")
    (layout.studies / "small.toml").write_text(STUDY % roles)
    run = run_study(layout, RunRequest("small", nodes.hosts_file))
    paths = layout.run("small", run)
    records = [trial_record.read_trial(folder) for folder in sorted(paths.trials.iterdir())]
    assert [(record.status, record.reason) for record in records] == [("ok", None)] * 2
    assert all(record.interleaved.active_s > 0 for record in records)
    assert all(service.cpu_s > 0 for record in records for service in record.services)
    first, second = ({pid for service in record.services for pid in service.pids} for record in records)
    assert first.isdisjoint(second)
    assert {service.host for service in records[0].services} == hosts
    ingest(paths)
    rows = pq.read_table(paths.table("measurements")).to_pylist()
    ok = [row["value"] for row in rows if (row["metric"], row["driver"]) == ("ok", "*")]
    assert len(ok) == 2 and min(ok) > 0
    assert jobs_left(nodes) == []


def test_load_generators_take_turns_at_a_target_that_is_not_configured(nodes, tmp_path):
    layout = with_studies(tmp_path / "home")
    own = LocalHost(tmp_path / "external")
    with running(own, "nginx", kept_port()) as server:
        place = server.rendered.context
        roles = f'[roles.front]\nexternal = "{place.address}:{place.port}"\n'
        text = (STUDY % roles).replace('same_as = "first"', "workload = { connections = 1 }")
        (layout.studies / "small.toml").write_text(text)
        run = run_study(layout, RunRequest("small", nodes.hosts_file))
    records = [trial_record.read_trial(folder) for folder in sorted(layout.run("small", run).trials.iterdir())]
    assert [(record.status, record.reason) for record in records] == [("ok", None)] * 2
    assert all(record.interleaved.active_s > 0 and not record.services for record in records)
    assert ingest(layout.run("small", run)).valid == 2
    values = load_run(layout, "small").values("ok_per_s")["value"]
    assert values.notna().all() and (values > 0).all()
    assert jobs_left(nodes) == []
