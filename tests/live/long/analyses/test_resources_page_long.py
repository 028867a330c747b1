"""The page on what hosts did: a recorded run, one with files added, one without monitors, one that was imported."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from loadbook.analyses.resources import ResourcesPage
from loadbook.stats.saturation import bottleneck_by_treatment, hosts_with_traces, saturation_of_run
from loadbook.store.paths import Layout
from loadbook.store.tables import RunData, load_run
from recorded_run import STUDY, ingested_run


@pytest.fixture(scope="module")
def layout(tmp_path_factory) -> Layout:
    return ingested_run(tmp_path_factory.mktemp("resources"))


@pytest.fixture(scope="module")
def data(layout) -> RunData:
    return load_run(layout, STUDY)


def without(data: RunData, **changes) -> RunData:
    return replace(data, **changes)


def test_resources_page_includes_machines_whose_traces_were_added_later(data):
    edge = data.traces[data.traces["host"] == "web"].assign(host="edge", role="balancer", source="munin")
    more = pd.concat([data.traces, edge])
    known = hosts_with_traces(more, data.run_record.hosts)
    assert known["edge"] == {"roles": ["balancer"], "cpus": None}
    page = ResourcesPage(without(data, traces=more))
    assert "balancer (edge)" in page.saturation().text
    assert set(bottleneck_by_treatment(saturation_of_run(page.run_data)).values()) <= {"C", "W"}
    assert page.blocks().text
