"""CPU time per response as the metric of a study, over SSH: plain, interleaved, replayed; warm-up not counted."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from controller_processes import jobs_left
from dry_run_transcripts import run_held_to_dry_run
from loadbook.analyses.effects.page import EffectsPage
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.store import trial_record
from loadbook.store.tables import load_run

STUDY = """
include = "aa.toml"
name = "cost"
metric = "{metric}"
blocks = 1
execution = "{execution}"

[workload]
warmup_s = 1.5

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0
"""


@pytest.mark.parametrize(
    ("execution", "metric"), [("plain", "cpu_per_response.web"), ("interleaved", "cpu_per_response")]
)
def test_study_that_asks_for_cpu_time_per_response_measures_it(lab, layout, execution, metric) -> None:
    (layout.studies / "cost.toml").write_text(STUDY.format(metric=metric, execution=execution))
    run = run_study(layout, RunRequest("cost", lab.hosts_file))
    paths = layout.run("cost", run)
    records = [trial_record.read_trial(folder) for folder in sorted(paths.trials.iterdir())]
    assert [record.status for record in records] == ["ok"] * 2
    for record in records:
        # one worker cannot use more than the time of its load; a warm-up of 1.5 s is not counted
        load_s = record.interleaved.active_s if record.interleaved else 1.0
        assert 0.05 < record.services[0].cpu_s < 1.3 * load_s
        assert (paths.trial(record.trial) / "stdout-driver").read_bytes()
    assert ingest(paths).valid == 2
    rows = pq.read_table(paths.table("measurements")).to_pylist()
    values = {(r["trial"], r["metric"]): r["value"] for r in rows if r["driver"] == "*"}
    for record in records:
        expected = record.services[0].cpu_s / values[record.trial, "ok"]
        for name in ("cpu_per_response", "cpu_per_response.web"):
            assert values[record.trial, name] == pytest.approx(expected)
    assert jobs_left(lab) == []
    run_held_to_dry_run(layout, "cost", paths)
    page = EffectsPage(load_run(layout, "cost"))
    assert page.values["value"].between(1e-6, 1e-3).all()
    assert [1e-6 < row.median < 1e-3 for row in page.analysis.rows] == [True, True]
