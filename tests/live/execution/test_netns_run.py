"""A study on the namespace lab: balancers in the kernel, a quota and a kernel setting, changed and put back."""

from __future__ import annotations

import json

import pytest

from loadbook.core.errors import PreflightError
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.host import Host
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.remote import connect
from loadbook.store.paths import Layout
from waiting import PATIENCE_S

STUDY = """
schema = 1
name = "paths"
question = "What does each way to the page cost?"
baseline = "dnat"
blocks = 1

[roles.driver]

[roles.balancer]
backends = "web"
service = "nft-dnat"

[roles.balancer.variants.dnat]

[roles.balancer.variants.dsr]
service = "nft-dsr"

[roles.web]
service = "nginx"
hosts = 2
vars = { page_bytes = 4, counters = "on" }

[factors]
balancer = { role = "balancer", of = "variant", levels = ["dnat", "dsr"] }
cpu = { role = "web", of = "cpu_quota", levels = [1.0, 0.2] }
backlog = { role = "web", of = "sysctls", var = "net.core.somaxconn", levels = [512, 64] }

[treatments.dnat]
set = { balancer = "dnat", cpu = 1.0, backlog = 512 }

[treatments.dsr]
set = { balancer = "dsr", cpu = 0.2, backlog = 64 }

[workload]
tool = "wrk"
target = "balancer"
path = "/index.html"
connections = 8
threads = 1
duration_s = 1
warmup_s = 0
"""


@pytest.fixture
def layout(tmp_path):
    for name in ("studies", "notebooks"):
        (tmp_path / name).mkdir()
    (tmp_path / "studies" / "paths.toml").write_text(STUDY)
    return Layout(tmp_path)


def requested(host: Host, text: str) -> str:
    return host.script(text, timeout_s=PATIENCE_S, check=True).stdout.decode()


@pytest.mark.root
def test_namespace_run_applies_kernel_changes_and_reverts_them(spaces, layout):
    paths = layout.run("paths", run_study(layout, RunRequest("paths", spaces.hosts_file)))
    records = {
        record["treatment"]: record
        for path in (*paths.failed.glob("*/trial.json"), *paths.trials.glob("*/trial.json"))
        if (record := json.loads(path.read_text()))
    }
    ended = {name: (record["status"], record["reason"]) for name, record in records.items()}
    assert ended == {"dnat": ("ok", None), "dsr": ("ok", None)}
    vip = read_hosts(spaces.hosts_file).hosts["balancer"].address
    usual = {"net.core.somaxconn": "512", "cpu_quota of web": 1.0}
    assert records["dnat"]["changes"] == {"web": usual, "web-2": usual, "balancer": {"net.ipv4.ip_forward": "1"}}
    slowed = {"net.core.somaxconn": "64", "cpu_quota of web": 0.2, "accepts": vip}
    assert records["dsr"]["changes"] == {"web": slowed, "web-2": slowed}
    for record in records.values():
        served = {s["host"]: s["counters_after"]["requests"] for s in record["services"] if s["role"] == "web"}
        assert all(served.values()) and len(served) == 2
    web = connect(spaces.hosts_file, "web", "after")
    assert requested(web, "cat /proc/sys/net/core/somaxconn").strip() not in ("512", "64")
    assert vip not in requested(web, "ip -o addr; nft list tables")
    # all labs of a machine share its groups, which are named after the address of a host
    groups = requested(web, "ls /sys/fs/cgroup/cpu /sys/fs/cgroup 2>/dev/null || :")
    addresses = [read_hosts(spaces.hosts_file).hosts[alias].address for alias in ("web", "web-2")]
    assert not [name for address in addresses if (name := f"loadbook-{address}-") in groups]
    web.close()


def test_namespace_run_without_permission_changes_nothing(lab, layout):
    text = STUDY.replace('service = "nft-dsr"', 'service = "nft-dsr"\nhosts = 1').replace("hosts = 2", "hosts = 1")
    file = layout.root / "hosts.toml"
    file.write_text(lab.hosts_file.read_text().replace('roles = ["web"]', 'roles = ["web", "balancer"]'))
    (layout.root / "known_hosts").write_bytes((lab.folder / "known_hosts").read_bytes())
    (layout.studies / "paths.toml").write_text(text)
    with pytest.raises(PreflightError) as refused:
        run_study(layout, RunRequest("paths", file))
    (problem,) = refused.value.problems
    assert problem.startswith("host web: service nft-dnat, treatment dnat")
    assert "needs nft, sysctl, cgroup, which the hosts file does not allow" in problem
    assert layout.runs("paths") == []
