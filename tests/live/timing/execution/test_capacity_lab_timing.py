"""Searches for capacity in the lab, of an application whose capacity is known, over real SSH."""

from __future__ import annotations

import shutil

import pyarrow.parquet as pq
import pytest

from capacity_study import NEEDS_VEGETA, records_of, written
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.hosts.shell import search_path
from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import Layout

pytestmark = [pytest.mark.timeout(300), NEEDS_VEGETA]


def test_objective_that_nothing_meets_is_searched_in_two_blocks_only(lab: Lab, layout: Layout) -> None:
    written(layout, within_s=0.015, start=100, blocks=3)
    run = run_study(layout, RunRequest("sustained", lab.hosts_file))
    paths = layout.run("sustained", run)
    summary = ingest(paths)
    assert summary.valid == 0
    causes = " ".join(cause for cause, _ in summary.causes)
    assert "no rate meets the objective: even" in causes and "raise capacity.within_s" in causes
    assert "not searched, as its exploration failed in 2 blocks before" in causes
    searched = records_of(paths)  # those of the third block have no files
    probes = [len(record.capacity.probes) if record.capacity else 0 for record in searched]
    assert len(probes) == 4 and all(0 < count <= 8 for count in probes), probes
    assert sorted(folder.name for folder in paths.failed.iterdir()) == ["t0005-attempt1", "t0006-attempt1"]


@pytest.mark.parametrize(("tool", "blocks"), [("vegeta", 2), ("k6", 1)])
def test_search_finds_known_capacities_with_every_probe_on_record(
    tool: str, blocks: int, lab: Lab, layout: Layout
) -> None:
    if tool == "k6" and not shutil.which("k6", path=search_path()):
        pytest.skip("needs k6")
    written(layout, blocks=blocks, tool=tool)
    notes: list[str] = []
    run = run_study(layout, RunRequest("sustained", lab.hosts_file), on_event=lambda event: notes.append(event.message))
    paths = layout.run("sustained", run)
    done = ingest(paths)
    assert done.valid == done.planned == 2 * blocks, (done.causes, notes)
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
