"""A run whose treatments differ in more than variables: what stands in front, how many nodes, which CPUs, how far."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from dry_run_transcripts import run_held_to_dry_run
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.store import trial_record
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.tables import read_table
from loopback_labs import own_lab

pytestmark = [
    pytest.mark.skipif(shutil.which("go") is None, reason="Go is not there: apt-get install golang-go"),
]
STUDY = """
schema = 1
name = "staged"
question = "Does everything stand where it is said to stand?"
baseline = "near"
blocks = 1

[roles.driver]

[roles.balancer]
backends = "web"
[roles.balancer.variants.line]
service = "delay-line"

[roles.web]
service = "go-app"
nofile = 500

[workload]
tool = "wrk"
target = "balancer"
connections = 4
duration_s = 1
warmup_s = 0

[factors]
balancer = { role = "balancer", of = "variant", levels = ["none", "line"] }
nodes = { of = "hosts", levels = [1, 2] }
web_cpus = { of = "cpus", levels = ["all", "0"] }
delay = { role = "driver", of = "delay_ms", levels = [0, 30] }

[treatments.near]
[treatments.behind]
set = { balancer = "line", nodes = 2 }
[treatments.far]
set = { delay = 30, web_cpus = "0" }
"""
HOSTS = {"driver": ("driver",), "web": ("web",), "web-2": ("web",), "balancer": ("balancer",)}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunPaths, dict[str, trial_record.TrialRecord]]]:
    """The run's paths, and the record of each treatment's trial."""
    layout = Layout(tmp_path_factory.mktemp("staged"))
    layout.studies.mkdir(parents=True)
    (layout.studies / "staged.toml").write_text(STUDY)
    with own_lab(hosts=HOSTS) as lab:
        paths = layout.run("staged", run_study(layout, RunRequest("staged", lab.hosts_file)))
        assert not list(lab.folder.glob("*/work/services/*")), "services were left behind"
    ingest(paths)
    records = [trial_record.read_trial(folder) for folder in paths.trials.iterdir()]
    yield paths, {record.treatment: record for record in records}


def test_deployed_services_have_proven_configurations_and_backends_start_first(run) -> None:
    services = {name: [(s.role, s.host, s.live) for s in record.services] for name, record in run[1].items()}
    assert services == {
        "near": [("web", "web", True)],
        "behind": [("web", "web", True), ("web", "web-2", True), ("balancer", "balancer", True)],
        "far": [("web", "web", True), ("line", "driver", True)],
    }


def test_deployed_load_passes_the_front_service(run) -> None:
    ports = {name: record.drivers[0].argv[-1] for name, record in run[1].items()}
    assert len({url.split("/")[2].split(":")[0] for url in ports.values()}) == 3


def test_deployed_delay_is_effective_and_recorded(run) -> None:
    paths, records = run
    assert json.loads(paths.run_json.read_text())["delay"] == "userspace"
    measured = read_table(paths.table("measurements"), "measurements")
    medians = measured.query("metric == 'latency' and statistic == 'p50' and driver == '*'").set_index("trial")["value"]
    far, near = (medians[records[name].trial] for name in ("far", "near"))
    assert near < far >= 0.030


def test_deployed_service_counters_are_in_the_host_metrics(run) -> None:
    paths, records = run
    traces = read_table(paths.table("traces"), "traces")
    served = traces[(traces["metric"] == "served_requests") & (traces["trial"] == records["behind"].trial)]
    counted = served.groupby("host")["value"].agg(lambda both: both.iloc[-1] - both.iloc[0])
    assert counted["web"] > 100 > counted["web-2"], "a line hands everything to the first behind it"


def test_deployed_run_executes_the_commands_of_its_dry_run(run) -> None:
    paths = run[0]
    layout = Layout(paths.raw.parents[3])
    run_held_to_dry_run(layout, "staged", paths)
