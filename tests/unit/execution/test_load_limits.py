"""What a study may put on hosts is refused when it is planned: beyond a cap, or on what no hosts file names."""

from __future__ import annotations

import itertools
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from command_line import exit_code
from loadbook.core.errors import StudyError, ToolError
from loadbook.execution.studies import check_load_allowed
from loadbook.hosts.inventory import read_hosts
from loadbook.study.plan import make_plan
from loadbook.study.reader import read_study
from loadbook.study.workload import Workload, split_load
from loadbook.tools import base
from loadbook.tools.base import Target

pytestmark = pytest.mark.fault(56)
STUDY = """
name = "capped"
question = "is it allowed?"
metric = "ok_per_s"
margin = 0.02
baseline = "plain"
blocks = 2
[workload]
tool = "{tool}"
model = "{model}"
connections = 40
target = "lb"
duration_s = 8
warmup_s = 2
{load}
[roles.driver]
[roles.lb]
service = "nginx"
backends = "web"
[roles.lb.variants.own]
[roles.lb.variants.cloud]
external = "lb.example:8443"
[roles.web]
service = "nginx"
hosts = 2
[factors]
nodes = {{ role = "web", of = "hosts", levels = [1, 2] }}
balancer = {{ role = "lb", of = "variant", levels = ["none", "own", "cloud"] }}
[treatments.plain]
set = {{ nodes = 1, balancer = "none" }}
{treatments}
"""
BALANCED = '[treatments.balanced]\nset = { nodes = 2, balancer = "own" }\n'
CLOUD = '[treatments.cloud]\nset = { nodes = 2, balancer = "cloud" }\n'
HARDER = '[treatments.harder]\nset = { nodes = 2, balancer = "own" }\nworkload = { rate_per_s = 900 }\n'
HOSTS = """
{top}
[hosts.load1]
roles = ["driver"]
[hosts.load2]
roles = ["driver"]
[hosts.lb1]
roles = ["lb"]
address = "192.0.2.10"
{lb1}
[hosts.web1]
roles = ["web"]
address = "192.0.2.21"
{web1}
[hosts.web2]
roles = ["web"]
address = "192.0.2.22"
{web2}
"""


def refused(tmp_path: Path, treatments: str = "", load: str = "", model: str = "closed", *, lab: bool = False,
            subset: str | None = None, **hosts: str) -> list[str]:  # fmt: skip
    """Return what is refused, as `path: message`; nothing where everything is allowed."""
    study, inventory = tmp_path / "capped.toml", tmp_path / "hosts.toml"
    tool = "httperf" if model == "open" else "wrk"
    study.write_text(STUDY.format(tool=tool, model=model, load=load, treatments=treatments))
    inventory.write_text(HOSTS.format(**{"top": "", "lb1": "", "web1": "", "web2": ""} | hosts))
    try:
        check_load_allowed(make_plan(read_study(study), subset), read_hosts(inventory), inventory, lab=lab)
    except StudyError as error:
        assert error.exit_code == 2
        assert str(inventory) in error.message
        assert error.hint
        return [f"{problem.path}: {problem.message}" for problem in error.problems]
    return []


def test_load_within_caps_is_allowed(tmp_path):
    assert not refused(tmp_path, BALANCED)
    wide = "max_connections = 40\nmax_load_s = 10"
    assert not refused(tmp_path, BALANCED, lb1=wide, web1=wide, web2=wide)


def test_load_beyond_caps_lists_every_host_key_and_treatment(tmp_path, record_property):
    found = refused(tmp_path, BALANCED, lb1="max_connections = 39", web2="max_load_s = 9.5")
    assert found == [
        "hosts.lb1.max_connections: 39 at most, the load may have 40 open (treatment balanced)",
        "hosts.web2.max_load_s: 9.5 s at most, the load of a trial may last 10 s (treatment balanced)",
    ]
    record_property("seen", found[0])


def test_load_caps_apply_to_every_host_behind_a_balancer(tmp_path):
    assert refused(tmp_path, "", web1="max_connections = 20") == [
        "hosts.web1.max_connections: 20 at most, the load may have 40 open (treatment plain)"
    ]
    assert not refused(tmp_path, "", web2="max_connections = 1", lb1="max_connections = 1")
    assert "(treatments plain, balanced)" in refused(tmp_path, BALANCED, web1="max_connections = 20")[0]


def test_open_load_rate_is_limited_by_the_cap_in_every_treatment(tmp_path):
    load = "rate_per_s = 500\ntimeout_s = 1"
    assert not refused(tmp_path, HARDER, load, "open", web1="max_requests_per_s = 900")
    assert refused(tmp_path, HARDER, load, "open", web1="max_requests_per_s = 899") == [
        "hosts.web1.max_requests_per_s: 899 at most, the load is of 900 requests per second (treatment harder)"
    ]
    # httperf opens connections whether the earlier ones were answered or not
    assert refused(tmp_path, "", load, "open", web1="max_connections = 499") == [
        "hosts.web1.max_connections: 499 at most, the load may have 500 open (treatment plain)"
    ]


def test_closed_load_is_refused_under_a_rate_cap_with_the_remedy(tmp_path):
    (printed,) = refused(tmp_path, "", web1="max_requests_per_s = 1e9")
    assert "a closed load has no rate of its own" in printed
    assert "open" in printed
    assert "take the cap away" in printed


def test_load_duration_cap_uses_the_time_limit_of_loads_with_a_request_count(tmp_path):
    (printed,) = refused(tmp_path, "", "requests = 100\nrate_per_s = 10", "open", web1="max_load_s = 25")
    assert "may last 26 s" in printed


def test_load_shares_of_drivers_never_exceed_the_total():
    work = Workload(tool="httperf", model="open", rate_per_s=1001, connections=97, requests=1009)
    for count in range(1, 12):
        shares = split_load(work, [f"load{k}" for k in range(count)]).values()
        assert sum(s.connections for s in shares) == 97
        assert sum(s.rate_per_s for s in shares) == pytest.approx(1001, abs=1e-9)
        assert sum(s.requests for s in shares) == 1009


def test_load_target_outside_the_hosts_file_is_refused(tmp_path, record_property):
    (printed,) = refused(tmp_path, CLOUD)
    assert printed == "roles.lb: lb.example:8443 is not in the hosts file (treatment cloud): no load is put on it"
    assert refused(tmp_path, CLOUD, top='external = ["lb.example:443", "lb.example.evil:8443"]')
    assert not refused(tmp_path, CLOUD, top='external = ["LB.example:8443"]')
    record_property("seen", printed)


def test_external_address_of_a_listed_host_is_allowed_with_its_caps(tmp_path):
    known = '[hosts.cloud]\nroles = []\naddress = "lb.example"\n'
    assert not refused(tmp_path, CLOUD, web2=known)
    (printed,) = refused(tmp_path, CLOUD, web2=known + "max_connections = 39")
    assert printed.startswith("hosts.cloud.max_connections: 39 at most")
    capped = known.replace("lb.example", "LB.example") + "max_connections = 39"
    assert refused(tmp_path, CLOUD, web2=capped) == [printed]  # names of hosts have no case


def test_lab_load_targets_are_limited_to_this_machine(tmp_path):
    assert "not on this machine" in refused(tmp_path, CLOUD, lab=True)[0]
    assert "not on this machine" in refused(tmp_path, CLOUD, lab=True, top='external = ["lb.example:8443"]')[0]


def test_load_caps_ignore_treatments_outside_the_plan(tmp_path):
    assert refused(tmp_path, CLOUD, web2="")
    assert not refused(tmp_path, CLOUD + '[subsets]\nsmall = ["plain"]\n', subset="small")


PATHS = ["//evil.example/", "/@evil.example/", "/\\evil.example", "/user:word@evil.example", "/?http://evil.example/",
         "/http://evil.example/", "/:80@evil", "/..//evil.example"]  # fmt: skip


@pytest.mark.parametrize(("name", "path"), [*itertools.product(["wrk", "ab", "h2load", "weighttp"], PATHS)])
def test_workload_path_cannot_redirect_the_load(name, path):
    tool = base.load_tool(name)
    given = {"requests": 1000} if name in ("weighttp",) else {}
    argv = tool.command(Workload(tool=name, path=path, connections=10, **given), Target("192.0.2.1", 8080), 10)
    urls = [word for word in argv if "://" in word and not word.startswith("-")]
    assert [(urlsplit(url).hostname, urlsplit(url).port) for url in urls] == [("192.0.2.1", 8080)]
    assert urls[0] == f"http://192.0.2.1:8080{path}"


@pytest.mark.parametrize(
    "path", ["evil.example/", "http://evil.example/", "@evil.example", "/a b", "/a\r\nHost: x", ""]
)
def test_workload_path_must_be_a_path(path):
    with pytest.raises(ValueError, match="path"):
        Workload(tool="wrk", path=path)


@pytest.mark.parametrize(
    ("name", "extra"),
    [("wrk", ["http://evil.example/"]), ("wrk", ["HTTPS://evil.example/"]), ("weighttp", ["http://evil.example/"]),
     ("ab", ["-X", "evil.example:3128"]), ("ab", ["-Xevil.example:3128"]), ("h2load", ["--connect-to=evil.example:80"]),
     ("h2load", ["http://evil.example/"]), ("h2load", ["--base-uri=http://evil.example"]),
     ("httperf", ["--server=evil.example"]), ("jmeter", ["-H", "evil.example"]), ("jmeter", ["-Revil.example"]),
     ("jmeter", ["-Dhttp.proxyHost=evil.example"]), ("jmeter", ["-Jhost=evil.example"])],
)  # fmt: skip
def test_extra_tool_options_cannot_redirect_the_load(name, extra):
    tool, given = base.load_tool(name), {"requests": 1000} if name == "weighttp" else {}
    if name == "httperf":
        given = {"model": "open", "rate_per_s": 10}  # type: ignore[dict-item]
    with pytest.raises(ToolError, match=r"workload\.extra has"):
        tool.command(Workload(tool=name, connections=10, extra=extra, **given), Target("192.0.2.1", 80), 10)


@pytest.mark.parametrize("command", [["plan"], ["run", "--dry-run"], ["run"]])
def test_load_beyond_caps_exits_with_2_in_every_planning_command(
    tmp_path, monkeypatch, capsys, command, socket_forbidden
):
    from recorded_run import with_studies

    layout = with_studies(tmp_path / "home")
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    assert refused(tmp_path, BALANCED, web1="max_connections = 5")
    found = exit_code(monkeypatch, command[0], str(tmp_path / "capped.toml"), *command[1:], "--hosts",
                      str(tmp_path / "hosts.toml"))  # fmt: skip
    printed = capsys.readouterr().err
    assert found == 2
    assert "hosts.web1.max_connections: 5 at most, the load may have 40 open (treatments plain, balanced)" in printed
    assert not list((layout.root / "data").rglob("plan.json"))


@pytest.fixture
def socket_forbidden(monkeypatch):
    """Fail whatever opens a connection."""
    import socket

    def connect(*args):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "connect_ex", connect)
