"""Hosts that are called alike are told apart in the traces."""

from __future__ import annotations

from loadbook.report.figures.tracks import host_names
from loadbook.store.run_record import RecordedHost


def test_figure_labels_distinguish_several_drivers():
    driver, web = RecordedHost(roles=["driver"]), RecordedHost(roles=["web"])
    assert host_names({"a": driver, "w": web, "b": driver, "c": driver}) == {
        "a": "first driver", "w": "web", "b": "second driver", "c": "third driver",
    }  # fmt: skip
    assert host_names({"w": web, "a": driver}) == {"w": "web", "a": "driver"}
    assert host_names({str(k): driver for k in range(9)})["8"] == "9th driver"
    assert host_names({"spare": RecordedHost(roles=[])}) == {"spare": "spare"}
