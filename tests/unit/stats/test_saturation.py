"""Which resource was full, by treatment and host; and the letter of the bottleneck."""

from __future__ import annotations

from typing import cast

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadbook.stats.saturation import (
    COLUMNS,
    CpuAllowance,
    bottleneck_by_treatment,
    cpu_allowances,
    finest_source_only,
    saturation,
)
from loadbook.store.run_record import RecordedHost
from loadbook.store.tables import RunData
from page_size_runs import sized_run, sized_study

HOSTS = {
    "load": RecordedHost(roles=["driver"], cpus=[0]),
    "edge": RecordedHost(roles=["balancer"], cpus=[2, 3]),
    "web1": RecordedHost(roles=["web"], link_mbit=1000.0),
}


def rows(trial: str, host: str, metric: str, item: str, values: list[float], source: str = "sampler") -> list[dict]:
    keys = {"study": "s", "run": "r", "trial": trial, "host": host, "role": HOSTS[host].roles[0]}
    return [
        keys | {"t_s": (n + 1) * 0.25, "metric": metric, "item": item, "value": v, "unit": "1", "source": source}
        for n, v in enumerate(values)
    ]


def trials(*names: str, treatment: str = "small8", valid: bool = True) -> pd.DataFrame:
    return pd.DataFrame(
        {"trial": list(names), "treatment": treatment, "valid": valid, "block": range(1, len(names) + 1)}
    )


def of(frame: pd.DataFrame, host: str, resource: str) -> pd.Series:
    return frame[(frame["host"] == host) & (frame["resource"] == resource)].iloc[0]


def test_cpu_saturation_uses_the_busiest_core_in_the_host_mask():
    busy = [
        *rows("t1", "edge", "cpu_busy", "cpu0", [1.0] * 4),  # not the balancer's
        *rows("t1", "edge", "cpu_busy", "cpu2", [0.2] * 4),
        *rows("t1", "edge", "cpu_busy", "cpu3", [0.95, 0.95, 0.95, 0.5]),
        *rows("t1", "load", "cpu_busy", "cpu0", [0.5] * 4),
    ]
    found = saturation(pd.DataFrame(busy), trials("t1"), HOSTS)
    edge = of(found, "edge", "cpu")
    assert (edge["share_full"], edge["trials_full"], edge["bottleneck"]) == (0.75, 1, "C")
    assert edge["mean"] == pytest.approx(0.8375)
    assert bottleneck_by_treatment(found) == {"small8": "C"}


def test_cpu_capacity_is_the_quota_or_the_cpu_mask_of_processes():
    busy = [
        *rows("t1", "edge", "cpu_busy", "cpu2", [0.25] * 4),
        *rows("t1", "edge", "cpu_busy", "cpu3", [0.25] * 4),
        *rows("t1", "edge", "process_cpu", "b:7", [0.3] * 4),
        *rows("t1", "edge", "process_cpu", "b:8", [0.19] * 4),
    ]
    frame = pd.DataFrame(busy)
    assert bottleneck_by_treatment(saturation(frame, trials("t1"), HOSTS)) == {"small8": None}
    quota = saturation(frame, trials("t1"), HOSTS, allowances={("small8", "edge"): CpuAllowance(None, 0.5)})
    assert of(quota, "edge", "cpu")["mean"] == pytest.approx(0.98)
    assert bottleneck_by_treatment(quota) == {"small8": "C"}
    mask = saturation(frame, trials("t1"), HOSTS, allowances={("small8", "edge"): CpuAllowance((2,), None)})
    assert of(mask, "edge", "cpu")["mean"] == pytest.approx(0.49)


def test_quota_of_the_host_limits_its_processes_as_one_of_the_study_does():
    study = sized_study(sizes=(128, 2048), blocks=1)
    run = sized_run(study, watched=False)
    treatment = study.baseline
    run.facts = {
        "www-before": {"cpu_quota": {"value": 0.2, "kind": "identity"}},
        "gen-before": {"cpu_quota": {"value": "none", "kind": "identity"}},
        "lb-before": {"cpu_quota": {"value": 0.75, "kind": "identity"}},
    }
    quotas = {host: cpu_allowances(cast("RunData", run))[treatment, host].quota for host in ("www", "gen", "lb")}
    of_study = study.setting(treatment, "balancer").cpu_quota
    assert quotas == {"www": 0.2, "gen": None, "lb": min(0.75, of_study or 0.75)}


def test_core_filled_by_other_processes_is_no_bottleneck():
    busy = [*rows("t1", "edge", "cpu_busy", "cpu2", [1.0] * 4), *rows("t1", "edge", "process_cpu", "b:7", [0.3] * 4)]
    edge = of(saturation(pd.DataFrame(busy), trials("t1"), HOSTS), "edge", "cpu")
    assert (edge["share_full"], edge["own"], edge["bottleneck"]) == (1.0, pytest.approx(0.3), None)
    more = [*busy, *rows("t1", "edge", "process_cpu", "b:8", [0.5] * 4)]
    assert bottleneck_by_treatment(saturation(pd.DataFrame(more), trials("t1"), HOSTS)) == {"small8": "C"}


def test_driver_whose_generator_fills_its_cpu_by_design_is_no_bottleneck():
    busy = [*rows("t1", "load", "cpu_busy", "cpu0", [1.0] * 4), *rows("t1", "edge", "cpu_busy", "cpu2", [0.95] * 4)]
    frame = pd.DataFrame(busy)
    assert bottleneck_by_treatment(saturation(frame, trials("t1"), HOSTS)) == {"small8": "D"}
    found = saturation(frame, trials("t1"), HOSTS, spinning=["small8"])
    assert bottleneck_by_treatment(found) == {"small8": "C"} and of(found, "load", "cpu")["share_full"] == 1.0


def test_network_saturation_needs_a_known_link_rate():
    flow = [*rows("t1", "web1", "net_tx", "eth0", [120e6] * 4), *rows("t1", "edge", "net_tx", "eth0", [120e6] * 4)]
    found = saturation(pd.DataFrame(flow), trials("t1"), HOSTS)
    assert of(found, "web1", "network")["share_full"] == 1.0
    assert of(found, "edge", "network")[["share_full", "mean"]].isna().all()
    assert bottleneck_by_treatment(found) == {"small8": "N"}


def test_network_use_is_that_of_the_busier_direction_of_the_busiest_interface():
    flows = [("net_rx", "eth0", 70e6), ("net_tx", "eth0", 80e6), ("net_tx", "eth1", 60e6)]
    frame = pd.DataFrame(
        [row for metric, name, value in flows for row in rows("t1", "web1", metric, name, [value] * 4)]
    )
    web = of(saturation(frame, trials("t1"), HOSTS), "web1", "network")
    assert (web["mean"], web["share_full"]) == (pytest.approx(80e6 / 125e6), 0.0)


def test_bottleneck_is_the_most_used_saturated_resource():
    busy = [*rows("t1", "edge", "cpu_busy", "cpu2", [0.93] * 4), *rows("t1", "load", "cpu_busy", "cpu0", [1.0] * 4)]
    assert bottleneck_by_treatment(saturation(pd.DataFrame(busy), trials("t1"), HOSTS)) == {"small8": "D"}


def test_saturation_covers_only_the_measured_time_of_valid_trials():
    busy = pd.DataFrame(rows("t1", "edge", "cpu_busy", "cpu2", [1.0] * 4 + [0.0] * 40))
    assert of(saturation(busy, trials("t1"), HOSTS, windows_s={"t1": 1.0}), "edge", "cpu")["share_full"] == 1.0
    assert of(saturation(busy, trials("t1"), HOSTS), "edge", "cpu")["share_full"] < 0.1
    nothing = saturation(busy, trials("t1", valid=False), HOSTS)
    assert nothing.empty and list(nothing.columns) == list(COLUMNS) and bottleneck_by_treatment(nothing) == {}


def test_saturation_uses_one_monitoring_source_and_does_not_add_sources():
    both = [
        *rows("t1", "edge", "memory_used", "all", [50.0] * 4),
        *rows("t1", "edge", "memory_used", "all", [60.0] * 4, "munin"),
        *rows("t1", "web1", "memory_used", "all", [70.0] * 4, "munin"),
    ]
    assert finest_source_only(pd.DataFrame(both)).groupby("host")["value"].max().to_dict() == {
        "edge": 50.0,
        "web1": 70.0,
    }
    assert of(saturation(pd.DataFrame(both), trials("t1"), HOSTS), "edge", "memory")["peak"] == 50.0


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=8), min_size=1, max_size=5))
def test_saturation_shares_lie_between_0_and_1(values):
    busy = [row for n, one in enumerate(values) for row in rows(f"t{n}", "edge", "cpu_busy", "cpu2", one)]
    names = [f"t{n}" for n in range(len(values))]
    edge = of(saturation(pd.DataFrame(busy), trials(*names), HOSTS), "edge", "cpu")
    assert 0 <= edge["share_full"] <= 1 and 0 <= edge["least"] <= edge["mean"] + 1e-9
    assert edge["mean"] <= edge["peak"] + 1e-9 and edge["trials"] == len(values)
