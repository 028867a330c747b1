"""Searches for capacity in the lab that end in another way, and one by two drivers."""

from __future__ import annotations

import pytest

from capacity_study import NEEDS_VEGETA, written
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import Layout

pytestmark = [pytest.mark.timeout(300), NEEDS_VEGETA]


def test_load_generator_that_is_too_weak_ends_the_search_and_says_what_it_could(lab: Lab, layout: Layout) -> None:
    """The server answers at once and has room for more; the generator may use a third of a CPU."""
    written(layout, within_s=0.5, hold_ms=0, start=600)
    study = layout.studies / "sustained.toml"
    study.write_text(study.read_text().replace("driver_cpu = 1.0", "driver_cpu = 0.35\ndriver_cpu_doubt = 0.35"))
    summary = ingest(layout.run("sustained", run_study(layout, "sustained", lab.hosts_file)))
    assert summary.valid == 0
    for cause, _ in summary.causes:
        assert "busy while measuring" in cause or "the one thread of vegeta used" in cause, cause
        assert "the number says how fast the generator is" in cause and "give the driver more CPUs" in cause, cause
        assert "requests/s met the objective" in cause or "none met the objective" in cause
