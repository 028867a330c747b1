"""Two runs of a study in a cell; the second one is the recorded run with other values."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from loadbook.core.errors import UsageError
from recorded_run import STUDY

if TYPE_CHECKING:
    from loadbook.notebook.run import Run
    from loadbook.store.paths import Layout

NEWER, COPY = "20261201-000000", "20261202-000000"


def repeated(layout: Layout, run: str, slower: dict[str, float]) -> None:
    """Copy the recorded run under another id, with some treatments slower by these ratios and other noise."""
    old, new = layout.run(STUDY, layout.runs(STUDY)[0]), layout.run(STUDY, run)
    shutil.copytree(old.raw, new.raw)
    shutil.copytree(old.processed, new.processed)
    reported = json.loads(new.run_json.read_text()) | {"run": run}
    new.run_json.write_text(json.dumps(reported))
    trials, values = (pd.read_parquet(new.table(name)) for name in ("trials", "measurements"))
    ratio = values["trial"].map(trials.set_index("trial")["treatment"]).map(slower).fillna(1.0)
    noise = values["trial"].map(lambda name: 1 + 0.002 * (int(name[1:]) % 7 - 3))
    values["value"] = values["value"] * (ratio * noise).where(values["metric"] == "ok_per_s", 1.0)
    values.to_parquet(new.table("measurements"))
    shutil.rmtree(new.ingest_cache)  # without checksums, edited tables are taken as they are
    for table in new.processed.glob("*.parquet"):
        table.touch()  # younger than the record


@pytest.fixture(scope="module")
def home(home: Layout, tmp_path_factory: Any) -> Layout:
    root = tmp_path_factory.mktemp("against") / "home"
    shutil.copytree(home.root, root)
    layout = type(home)(root)
    repeated(layout, NEWER, {"auto-nopush": 0.5})
    return layout


@pytest.fixture
def run(home: Layout, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    import loadbook as lb

    monkeypatch.chdir(home.root / "notebooks")
    return lb.load(STUDY)


def test_notebook_cell_compares_a_run_with_the_previous_one(run: Run) -> None:
    found = run.against()
    frame = found.frame.set_index("treatment")
    assert frame.loc["auto-nopush", "word"] == "changed"
    assert frame.loc["auto-nopush", "moved"] == pytest.approx(-0.5, abs=0.02)
    assert frame.loc["auto-nopush", "low"] < -0.5 < frame.loc["auto-nopush", "high"]  # type: ignore[arg-type]
    assert len(found) == len(frame) == 3
    assert found.changes == []
    assert "The effect of tcp_nopush on changed." in repr(found) and "Nothing that was recorded" in repr(found)
    assert "<b>changed</b>" in found._repr_html_()
    assert any("tcp_nopush on: changed" in line for line in found.sentences)


def test_notebook_cell_figure_equals_the_figure_of_the_report(run: Run) -> None:
    drawn = run.plot.two_runs()
    assert drawn.answer == "The effect of tcp_nopush on changed."
    assert drawn._repr_html_().count("data:image/svg+xml,") == 1


def test_notebook_cell_compares_another_metric_and_a_subset_of_trials(run: Run, home: Layout) -> None:
    found = run.without("t0002").against(home.runs(STUDY)[0], metric="latency p99")
    assert found.page.result.newer.statistic == "p99"
    assert "1 of 32 trials left out by hand: it explores." in repr(found)


def test_comparing_a_run_with_its_own_copy_or_an_unknown_run_is_refused(run: Run, home: Layout) -> None:
    old = home.run(STUDY, home.runs(STUDY)[0])
    copied = home.run(STUDY, COPY)
    for part in ("raw", "processed"):
        shutil.copytree(getattr(old, part), getattr(copied, part))
    try:
        with pytest.raises(UsageError, match="hold the very measurements of one run"):
            load(COPY).against(old.raw.name)
    finally:
        shutil.rmtree(copied.raw)
    with pytest.raises(UsageError, match="no run 'nonsense'"):
        run.against("nonsense")
    with pytest.raises(UsageError, match="no run before"):
        load(old.raw.name).against()


def load(run: str) -> Run:
    import loadbook as lb

    assert Path.cwd().name == "notebooks"
    return lb.load(STUDY, run)
