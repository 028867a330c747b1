"""Hosts that are called alike are told apart in the traces."""

from __future__ import annotations

from loadbook.report.figures.tracks import host_name, numbered


def test_figure_labels_distinguish_several_drivers():
    hosts = {a: {"roles": r.split()} for a, r in [("a", "driver"), ("w", "web"), ("b", "driver"), ("c", "driver")]}
    assert [host_name(host, alias) for alias, host in numbered(hosts).items()] == [
        "first driver", "web", "second driver", "third driver",
    ]  # fmt: skip
    assert numbered({"w": hosts["w"], "a": hosts["a"]}) == {"w": hosts["w"], "a": hosts["a"]}
    many = {str(k): {"roles": ["driver"]} for k in range(9)}
    assert host_name(numbered(many)["8"], "8") == "9th driver"
