"""Searches for capacity in the lab that end in another way, and one by two drivers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from capacity_study import (
    NEEDS_VEGETA,
    keep_only_four_slots,
    records_of,
    use_fragile_service,
    written,
    written_for_external_targets,
)
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import Layout
from local_host import LocalHost
from loopback_labs import own_lab
from ports import kept_port
from running_services import running

pytestmark = [pytest.mark.timeout(300), NEEDS_VEGETA]


def test_rate_above_the_limit_of_the_hosts_file_ends_the_search_with_its_reason(lab: Lab, layout: Layout) -> None:
    written(layout, start=60)
    keep_only_four_slots(layout)
    text = lab.hosts_file.read_text()
    capped = lab.hosts_file.with_name("capped.toml")
    capped.write_text(text.replace('[hosts."web"]', '[hosts."web"]\nmax_requests_per_s = 95', 1))
    summary = ingest(layout.run("sustained", run_study(layout, RunRequest("sustained", capped))))
    assert summary.valid == 0
    assert "95 at most" in summary.causes[0][0] and "90 requests/s met the objective" in summary.causes[0][0]


def test_two_drivers_share_the_rate_and_their_times_are_merged(layout: Layout) -> None:
    written(layout, start=150)
    keep_only_four_slots(layout)
    with own_lab(hosts={"driver": ("driver",), "web": ("web",), "driver-2": ("driver",)}) as lab:
        paths = layout.run("sustained", run_study(layout, RunRequest("sustained", lab.hosts_file)))
    assert ingest(paths).valid == 1
    (record,) = records_of(paths)
    assert record.capacity is not None
    assert 0.7 * 200 < (record.capacity.capacity_per_s or 0) < 1.25 * 200
    rows = pq.read_table(paths.table("measurements")).to_pylist()
    requests = {row["driver"]: row["value"] for row in rows if row["metric"] == "requests"}
    assert sorted(requests) == ["*", "driver", "driver-2"]
    offered = record.workload["rate_per_s"] * record.workload["duration_s"]
    assert requests["*"] == pytest.approx(requests["driver"] + requests["driver-2"]) == pytest.approx(offered, rel=0.03)


def test_load_generator_that_is_late_is_no_miss_of_the_server(lab: Lab, layout: Layout) -> None:
    """Two connections of 20 ms each make 100 requests a second, the server could do twice as much."""
    written(layout, start=60)
    keep_only_four_slots(layout)
    study = layout.studies / "sustained.toml"
    study.write_text(study.read_text().replace("connections = 8", "connections = 2\nmax_connections = 2"))
    paths = layout.run("sustained", run_study(layout, RunRequest("sustained", lab.hosts_file)))
    summary = ingest(paths)
    assert summary.valid == 0
    for cause, _ in summary.causes:
        assert "vegeta started requests late; from their actual start, they met" in cause, cause
        assert "raise workload.max_connections" in cause and "requests/s met the objective" in cause


def test_server_that_dies_above_its_capacity_has_missed_the_objective(lab: Lab, layout: Layout) -> None:
    written(layout, within_s=0.2, start=100)
    use_fragile_service(layout)
    keep_only_four_slots(layout)
    notes: list[str] = []
    run = run_study(layout, RunRequest("sustained", lab.hosts_file), on_event=lambda event: notes.append(event.message))
    paths = layout.run("sustained", run)
    assert ingest(paths).valid == 1, notes
    (record,) = records_of(paths)
    assert record.capacity is not None and record.capacity.capacity_per_s is not None
    died = [probe for probe in record.capacity.probes if probe.missed == "server"]
    assert died and all("ended during the load with exit code 3" in (probe.reason or "") for probe in died), notes
    met = [probe.rate_per_s for probe in record.capacity.probes if probe.missed is None]
    assert max(met) <= record.capacity.capacity_per_s * 1.001 < min(probe.rate_per_s for probe in died) * 1.05


def test_capacities_of_servers_that_loadbook_does_not_start(lab: Lab, layout: Layout, tmp_path: Path) -> None:
    host = LocalHost(tmp_path / "external")
    page: dict[str, Any] = {"hold_ms": 20, "page_bytes": 64}
    with (
        running(host, "go-app", kept_port(), slots=4, **page) as four,
        running(host, "go-app", kept_port(), slots=5, **page) as five,
    ):
        places = [f"{server.rendered.context.address}:{server.port}" for server in (four, five)]
        written_for_external_targets(layout, *places)
        run = run_study(layout, RunRequest("sustained", lab.hosts_file))
    paths = layout.run("sustained", run)
    assert ingest(paths).valid == 2
    for record in records_of(paths):
        assert record.capacity is not None and not record.services
        truth = {"four-slots": 200, "five-slots": 250}[record.treatment]
        assert 0.7 * truth < (record.capacity.capacity_per_s or 0) < 1.25 * truth


def test_load_generator_that_is_too_weak_ends_the_search_and_says_what_it_could(lab: Lab, layout: Layout) -> None:
    """The server answers at once and has room for more; the generator may use a third of a CPU."""
    written(layout, within_s=0.5, hold_ms=0, start=600)
    keep_only_four_slots(layout)
    study = layout.studies / "sustained.toml"
    study.write_text(study.read_text().replace("driver_cpu = 1.0", "driver_cpu = 0.35\ndriver_cpu_doubt = 0.35"))
    summary = ingest(layout.run("sustained", run_study(layout, RunRequest("sustained", lab.hosts_file))))
    assert summary.valid == 0
    for cause, _ in summary.causes:
        assert "busy while measuring" in cause or "the one thread of vegeta used" in cause, cause
        assert "the number says how fast the generator is" in cause and "give the driver more CPUs" in cause, cause
        assert "requests/s met the objective" in cause or "none met the objective" in cause
