"""Rates that are certified in the lab: every start counts, those that the server did not survive as misses."""

from __future__ import annotations

import pytest

from capacity_study import NEEDS_VEGETA, records_of, use_fragile_service, written_to_certify
from loadbook.analyses.certified_rates.compute import judged_rates_of
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run

pytestmark = [pytest.mark.timeout(300), NEEDS_VEGETA]


@pytest.mark.parametrize("service", ["go-app", "fragile"])
def test_rates_below_the_capacity_are_certified_and_those_above_refuted(lab: Lab, layout: Layout, service: str) -> None:
    """Four slots of 20 ms serve 200 requests/s; the fragile service dies if thirty requests wait."""
    written_to_certify(layout)
    if service == "fragile":
        use_fragile_service(layout)
    run = run_study(layout, RunRequest("sustained", lab.hosts_file))
    paths = layout.run("sustained", run)
    assert ingest(paths).valid == 15  # a missed objective is a result
    found = judged_rates_of(load_run(layout, "sustained", run), 0.95)
    assert [found[name].rate_per_s for name in ("low", "middle", "high")] == [80, 120, 600]
    assert {name: one.state for name, one in found.items()} == {
        "low": "certified", "middle": "certified", "high": "refuted"
    }  # fmt: skip
    assert not found["low"].is_highest and found["middle"].is_highest
    missed = {probe.missed for record in records_of(paths) if record.capacity for probe in record.capacity.probes}
    assert missed <= ({None, "server"} if service == "fragile" else {None, "latency", "rate"})
    assert all(len(record.capacity.probes) == 1 for record in records_of(paths) if record.capacity)
