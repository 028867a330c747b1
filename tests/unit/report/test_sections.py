"""Facts, provenance, and latencies by driver, as a page shows them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from loadbook.core.validity_rules import rule_title
from loadbook.ingestion.ingest import ingest
from loadbook.report.sections import (
    config_differences,
    driver_latency_note,
    driver_latency_table,
    driver_scope,
    fact_changes_table,
    fact_text,
    provenance_pairs,
    trial_table,
)
from loadbook.store.paths import Layout
from loadbook.store.run_record import ImportSource
from loadbook.store.tables import load_run
from recorded_run import INTERLEAVED_FIXTURE, STUDY, ingested_run
from run_records import make_run_record, plan_of


@pytest.mark.parametrize(
    ("name", "fact", "text"),
    [
        ("memory_total_b", {"value": 2048}, "2.0 KiB"),
        ("kernel", {"value": "6.1"}, "6.1"),
        ("cpu_mhz", {"value": 2599.998}, "2,600"),
        ("cpu_mhz", 1234567.0, "1.23457e+06"),
        ("cores", {"value": None}, "–"),
        ("cores", None, "–"),
        ("cores", {"value": 0}, "0"),
    ],
)
def test_facts_are_shown_with_their_units(name: str, fact: Any, text: str) -> None:
    assert fact_text(name, fact).replace("\u00a0", " ") == text


def test_facts_that_changed_are_listed_with_those_that_identify_a_machine_first() -> None:
    def facts(**values: Any) -> dict[str, Any]:
        kinds = {"kernel": "identity", "swap_total_b": "tolerance", "load_1min": "info", "new": "identity"}
        return {name: {"value": value, "kind": kinds[name]} for name, value in values.items()}

    before = facts(load_1min=0.1, swap_total_b=0, kernel="6.1")
    kept = {"web-before": before, "web-after": facts(load_1min=0.5, swap_total_b=1024, kernel="6.2", new=1)}
    data: Any = SimpleNamespace(run_record=make_run_record(), facts=kept | {"driver-before": before})
    rows = fact_changes_table(data).rows
    assert [(row[0], row[1]) for row in rows] == [
        ("web: kernel", "identity"), ("web: new", "identity"), ("web: swap total", "tolerance"),
        ("web: load 1min", "info"),
    ]  # fmt: skip
    assert [row[2:] for row in rows[:2]] == [["6.1", "6.2"], ["–", "1"]]
    data.facts["web-after"] = before
    assert fact_changes_table(data).rows == []


def test_changed_file_of_a_trial_is_named_where_a_page_says_where_it_comes_from(tmp_path) -> None:
    layout = ingested_run(tmp_path)
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    whole = dict(provenance_pairs(load_run(layout, STUDY, paths.raw.name)))
    assert whole["raw data"].startswith("verified: ") and whole["raw data"].endswith("of 31 trials match their sha256")
    trials = sorted(paths.trials.iterdir())
    next(trials[0].glob("stdout-*")).write_text("changed")
    (trials[1] / "trial.json").write_text("{")
    printed = dict(provenance_pairs(load_run(layout, STUDY, paths.raw.name)))["raw data"]
    assert printed.startswith("NOT as recorded: t0001/stdout-driver, t0002/trial.json (2 of ")


@pytest.mark.parametrize("timed", [True, False])
def test_provenance_of_an_imported_run_says_from_where_and_when(tmp_path, timed: bool) -> None:
    layout = ingested_run(tmp_path)
    data: Any = load_run(layout, STUDY, layout.resolve_run(STUDY))
    source = ImportSource.model_validate(
        {"at": 1.7e9, "folder": "old", "conditions": "notes", "timed": timed, "format": "x"}
    )
    record = data.run_record.model_copy(update={"imported": source})
    displayed = SimpleNamespace(**{name: getattr(data, name) for name in ("study", "run", "plan", "paths", "trials")})
    displayed.run_record = record
    pairs = dict(provenance_pairs(displayed))  # type: ignore[arg-type]
    assert "imported 2023-11-14 22:13" in pairs["run"] and "UTC from old, " in pairs["run"]
    assert ("start not known" in pairs["run"]) is not timed
    assert ("by notes" in pairs["run"]) is timed


def run_of_two_drivers() -> Any:
    trials = pd.DataFrame({"trial": ["t1", "t2", "t3"], "treatment": ["a", "a", "b"], "valid": [True, True, False]})
    rows = [
        (trial, driver, metric, statistic, value)
        for trial, values in {"t1": (0.010, 0.020), "t2": (0.012, 0.030), "t3": (9.0, 9.0)}.items()
        for driver, value in zip(("d1", "d2"), values, strict=True)
        for metric, statistic in (("latency", "p50"), ("ttfb", "p50"))
    ]
    measured = [*rows, ("t1", "*", "ttfb", "p50", 1.0), ("t2", "*", "ttfb", "p50", 1.0)]
    names = ["trial", "driver", "metric", "statistic", "value"]
    return SimpleNamespace(
        trials=trials.assign(drivers=[1, 2, 2]), plan=plan_of(treatments=("a", "b")),
        measurements=pd.DataFrame(measured, columns=names),
        values=lambda metric: pd.DataFrame({"value": [0.001, None, 0.004]}),
    )  # fmt: skip


def test_latency_of_each_driver_is_the_median_of_its_valid_trials() -> None:
    labels = {"a": "A", "b": "B"}
    table = driver_latency_table(run_of_two_drivers(), labels, ("ttfb", "latency"), ("p50", "p99"))
    cells = [[str(cell).replace("\u00a0", " ") for cell in row] for row in table.rows]
    assert cells == [["A", "d1", "2", "11 ms"], ["A", "d2", "2", "25 ms"]]


def test_percentiles_without_a_total_are_shown_by_driver_beside_those_with_one() -> None:
    run = run_of_two_drivers()
    whole = pd.DataFrame([("t1", "*", "latency", "p99", 0.5)], columns=run.measurements.columns)
    run.measurements = pd.concat([run.measurements, whole])
    table = driver_latency_table(run, {"a": "A", "b": "B"}, ("ttfb", "latency"), ("p50", "p99"))
    assert [column.header for column in table.columns] == ["Treatment", "Driver", "Trials", "p50"]
    assert [row[1] for row in table.rows] == ["d1", "d2"]
    run.tools = ["wrk2"]
    assert driver_latency_note(run).startswith("Latency is each driver’s own: wrk2 report percentiles")
    assert "the histograms of wrk2 are too coarse there" in driver_latency_note(run, is_rest=True)


def test_number_of_drivers_is_shown_with_the_largest_offset_of_their_starts() -> None:
    run = run_of_two_drivers()
    assert [text.replace("\u00a0", " ") for text in driver_scope(run)] == ["2 drivers that started within 4 ms"]
    run.trials["drivers"] = 1
    assert driver_scope(run) == []


def test_table_of_trials_names_the_rules_that_a_trial_broke(tmp_path) -> None:
    layout = ingested_run(tmp_path)
    data: Any = load_run(layout, STUDY, layout.resolve_run(STUDY))
    first, second = data.trials.sort_values("slot").index[:2]
    data.trials["gates"] = [["driver_cpu"] if index == first else [] for index in data.trials.index]
    data.trials.loc[second, "duration_s"] = 2.26
    table = trial_table(data, "ok_per_s", {name: name.upper() for name in data.plan.treatments})
    rows = [dict(zip([column.header for column in table.columns], row, strict=True)) for row in table.rows]
    assert [row["Validity"] for row in rows[:2]] == [rule_title("driver_cpu"), "–"]
    assert rows[1]["Took, s"] == "2.3" and rows[1]["Treatment"] == data.trials.loc[second, "treatment"].upper()
    assert [row["Slot"] for row in rows[:3]] == ["1", "2", "3"] and rows[0]["Errors"] == "0"


def test_configurations_of_treatments_that_take_turns_do_not_differ_by_their_ports(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    shutil.copytree(INTERLEAVED_FIXTURE, tmp_path / "data" / "raw" / "interleaved")
    (run,) = layout.runs("interleaved")
    paths = layout.run("interleaved", run)
    ingest(paths)
    for trial in paths.trials.iterdir():  # another port than those of the baseline
        record = trial / "trial.json"
        if json.loads(record.read_text())["treatment"] == "on":
            for file in (record, *trial.glob("*/nginx.conf")):
                file.write_text(re.sub(r":180\d\d\b", ":18999", file.read_text()))
    lines = "\n".join(config_differences(load_run(layout, "interleaved", run)).values()).splitlines()
    assert lines[:2] == ["-tcp_nopush off;", "+tcp_nopush on;"] and not any("listen" in line for line in lines), lines
    assert len(set(lines)) == len(lines), "equal lines below each other are counted"
