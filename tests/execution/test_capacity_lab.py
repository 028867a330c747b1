"""Searches for capacity in the lab, of an application whose capacity is known: slots / hold time, over real SSH."""

from __future__ import annotations

import multiprocessing
import shutil
from typing import Any

import pyarrow.parquet as pq
import pytest

from controller_processes import jobs_left, must_be_whole
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.hosts.shell import search_path
from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.trial_record import TrialRecord, read_trial
from loadbook.tools.base import load_tool
from loopback_labs import own_lab
from waiting import wait_until

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not shutil.which("vegeta", path=search_path()), reason=f"no vegeta: {load_tool('vegeta').install_hint}"
    ),
]
# 200 a second with four slots, 250 with five
STUDY = """
schema = 1
name = "sustained"
question = "How much load does each sustain?"
baseline = "four-slots"
blocks = {blocks}
[capacity]
within_s = {within_s}
share = 0.8
[roles.driver]
[roles.web]
service = "go-app"
vars = {{ hold_ms = {hold_ms}, slots = 4, page_bytes = 64 }}
[workload]
tool = "vegeta"
model = "open"
rate_per_s = {start}
duration_s = 1
warmup_s = 0
connections = 8
timeout_s = 8
[reset]
settle_s = 0
time_wait_sockets = 1000000
# where these run, driver and server share two CPUs with other work
[validity]
driver_cpu = 1.0
[factors]
slots = {{ levels = [4, 5] }}
[treatments.four-slots]
[treatments.five-slots]
set = {{ slots = 5 }}
"""


def written(layout: Layout, **values: Any) -> None:
    text = STUDY.format(**{"blocks": 1, "within_s": 0.1, "hold_ms": 20, "start": 180} | values)
    (layout.studies / "sustained.toml").write_text(text)


def records_of(paths: RunPaths) -> list[TrialRecord]:
    return [read_trial(folder) for folder in sorted(paths.trials.iterdir())]


def test_search_finds_known_capacities_with_every_probe_on_record(lab: Lab, layout: Layout) -> None:
    written(layout, blocks=2)
    notes: list[str] = []
    run = run_study(layout, "sustained", lab.hosts_file, on_event=lambda event: notes.append(event.message))
    paths = layout.run("sustained", run)
    done = ingest(paths)
    assert done.valid == done.planned == 4, (done.causes, notes)
    rows = pq.read_table(paths.table("measurements")).to_pylist()
    found = {row["trial"]: row["value"] for row in rows if row["metric"] == "capacity_per_s"}
    for record in records_of(paths):
        assert record.capacity is not None
        # in a second, a load of a tenth more than the truth is late by 0.1 s at the end only, and is sustained
        truth = {"four-slots": 200, "five-slots": 250}[record.treatment]
        assert 0.7 * truth < found[record.trial] < 1.25 * truth, notes
        assert record.capacity.capacity_per_s == pytest.approx(found[record.trial])
        probes = record.capacity.probes
        assert {probe.phase for probe in probes} == {"search", *(["exploration"] if record.block == 1 else [])}
        assert all((paths.trial(record.trial) / probe.folder / "trial.json").is_file() for probe in probes)
        assert record.workload["rate_per_s"] == max(
            probe.rate_per_s for probe in probes if probe.counts and probe.missed is None
        )
        assert all((paths.trial(record.trial) / driver.stdout).is_file() for driver in record.drivers)
        assert record.services[0].live and record.services[0].cpu_s is not None
    samples = pq.read_table(paths.table("samples")).to_pylist()
    points = {(row["series"], row["metric"]) for row in samples if row["series"] in ("probe", "exploration")}
    assert points == {(s, m) for s in ("probe", "exploration") for m in ("share_within", "margin")}
    made = sum(len(record.capacity.probes) for record in records_of(paths) if record.capacity)
    assert sum("the objective" in note for note in notes) == made


def test_objective_that_nothing_meets_is_found_by_a_few_probes(lab: Lab, layout: Layout) -> None:
    written(layout, within_s=0.015, start=100, blocks=2)
    run = run_study(layout, "sustained", lab.hosts_file)
    paths = layout.run("sustained", run)
    summary = ingest(paths)
    assert summary.valid == 0
    causes = " ".join(cause for cause, _ in summary.causes)
    assert "no rate meets the objective: even" in causes and "raise capacity.within_s" in causes
    assert "not searched, as in an earlier block" in causes
    first, second = records_of(paths)  # those of the second block have no files
    assert all(record.capacity and len(record.capacity.probes) <= 8 for record in (first, second))
    assert sorted(folder.name for folder in paths.failed.iterdir()) == ["t0003-attempt1", "t0004-attempt1"]


def test_rate_above_the_limit_of_the_hosts_file_ends_the_search_with_its_reason(lab: Lab, layout: Layout) -> None:
    written(layout, start=60)
    text = lab.hosts_file.read_text()
    capped = lab.hosts_file.with_name("capped.toml")
    capped.write_text(text.replace('[hosts."web"]', '[hosts."web"]\nmax_requests_per_s = 95', 1))
    summary = ingest(layout.run("sustained", run_study(layout, "sustained", capped)))
    assert summary.valid == 0
    assert "95 at most" in summary.causes[0][0] and "90 requests/s met the objective" in summary.causes[0][0]


def test_killed_run_repeats_its_block(lab: Lab, layout: Layout) -> None:
    written(layout)
    process = multiprocessing.get_context("forkserver").Process(
        target=run_study, args=(layout, "sustained", lab.hosts_file), daemon=True
    )
    process.start()
    wait_until(lambda: bool(list(layout.study_raw("sustained").glob("*/staging/*/probe-03/*"))), 120)
    process.kill()
    process.join(10)
    (run,) = layout.runs("sustained")
    paths = layout.run("sustained", run)
    assert not list(paths.trials.glob("*"))
    assert run_study(layout, "sustained", lab.hosts_file) == run
    must_be_whole(paths, ["t0001", "t0002"])
    assert ingest(paths).valid == 2
    wait_until(lambda: not jobs_left(lab), 35)


def test_two_drivers_share_the_rate_and_their_times_are_merged(layout: Layout) -> None:
    written(layout, start=150)
    study = layout.studies / "sustained.toml"
    study.write_text(study.read_text().partition("[treatments.five-slots]")[0])
    with own_lab(hosts={"driver": ("driver",), "web": ("web",), "driver-2": ("driver",)}) as lab:
        paths = layout.run("sustained", run_study(layout, "sustained", lab.hosts_file))
    assert ingest(paths).valid == 1
    (record,) = records_of(paths)
    assert record.capacity is not None
    assert 0.7 * 200 < (record.capacity.capacity_per_s or 0) < 1.25 * 200
    rows = pq.read_table(paths.table("measurements")).to_pylist()
    requests = {row["driver"]: row["value"] for row in rows if row["metric"] == "requests"}
    assert sorted(requests) == ["*", "driver", "driver-2"]
    offered = record.workload["rate_per_s"] * record.workload["duration_s"]
    assert requests["*"] == pytest.approx(requests["driver"] + requests["driver-2"]) == pytest.approx(offered, rel=0.03)


FRAGILE_SERVICE = """
name = "fragile"
about = "four requests at a time, 20 ms each; it dies with thirty in line"
binary = "python3"
package = "python3"
[version]
argv = ["python3", "-V"]
pattern = 'Python ([0-9.]+)'
[files]
"server.py" = "server.py.j2"
[commands]
start = ["python3", "{{ dir }}/server.py", "{{ address }}", "{{ port }}", "{{ config_id }}"]
[ready]
path = "/"
[prove]
path = "/id"
[vars.slots]
type = "int"
min = 1
max = 100
default = 4
about = "requests that are served at once"
"""
FRAGILE_SERVER = """
import http.server, os, sys, threading, time
slots, waiting, lock = threading.Semaphore({{ slots }}), [0], threading.Lock()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        with lock:
            waiting[0] += 1
            if waiting[0] > 30:
                os._exit(3)
        with slots:
            time.sleep(0.02)
        with lock:
            waiting[0] -= 1
        body = sys.argv[3].encode() if self.path == "/id" else b"hello"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""


def test_server_that_dies_above_its_capacity_has_missed_the_objective(lab: Lab, layout: Layout) -> None:
    written(layout, within_s=0.2, start=100)
    folder = layout.studies / "services" / "fragile"
    folder.mkdir(parents=True)
    (folder / "service.toml").write_text(FRAGILE_SERVICE)
    (folder / "server.py.j2").write_text(FRAGILE_SERVER)
    study = layout.studies / "sustained.toml"
    text = study.read_text().replace('service = "go-app"', 'service = "fragile"')
    study.write_text(text.replace("hold_ms = 20, slots = 4, page_bytes = 64", "slots = 4"))
    notes: list[str] = []
    run = run_study(layout, "sustained", lab.hosts_file, on_event=lambda event: notes.append(event.message))
    paths = layout.run("sustained", run)
    assert ingest(paths).valid == 2, notes
    for record in records_of(paths):
        assert record.capacity is not None and record.capacity.capacity_per_s is not None
        died = [probe for probe in record.capacity.probes if probe.missed == "server"]
        assert died and all("ended during the load with exit code 3" in (probe.reason or "") for probe in died), notes
        met = [probe.rate_per_s for probe in record.capacity.probes if probe.missed is None]
        assert max(met) <= record.capacity.capacity_per_s * 1.001 < min(probe.rate_per_s for probe in died) * 1.05
