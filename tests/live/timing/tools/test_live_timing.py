"""Load generators keep to the rate and the think time of a study, against a real nginx."""

from __future__ import annotations

from pathlib import Path

import pytest

from capacity_study import NEEDS_VEGETA
from jmeter_home import NEEDS_JMETER, jmeter_load, put_jmeter_on_path
from loadbook.study.workload import Workload
from page_server import measured, page_server


def test_live_wrk_think_time_is_not_part_of_latency(tmp_path: Path) -> None:
    with page_server(tmp_path) as servers:
        got = measured(servers.plain, tmp_path, Workload(tool="wrk", connections=4, think_time_s=0.1))
    assert 20 <= got["requests", "count"] <= 44 and got["latency", "p50"] < 0.05


@NEEDS_VEGETA
def test_live_vegeta_holds_a_rate(tmp_path: Path) -> None:
    with page_server(tmp_path) as servers:
        load = Workload(tool="vegeta", model="open", rate_per_s=200, connections=4)
        got = measured(servers.plain, tmp_path, load, 2.0)
    assert got["ok", "count"] == got["requests", "count"] == pytest.approx(400, abs=5)


@NEEDS_JMETER
def test_live_jmeter_open_load_offers_its_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_jmeter_on_path(monkeypatch)
    with page_server(tmp_path) as servers:
        got = measured(servers.plain, tmp_path, jmeter_load(model="open", rate_per_s=20), 3.0)
    assert got["offered_per_s", "value"] == 20 and 45 <= got["requests", "count"] <= 80
