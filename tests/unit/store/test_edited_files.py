"""What was edited or lost after a run is named with the command that mends it: tables, ledger, plan."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from loadbook.core.errors import DataError
from loadbook.ingestion.ingest import ingest
from loadbook.report.build import ensure_ingested
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.tables import edited_tables, load_run, read_table
from loadbook.store.verify import missing_ledger_lines
from recorded_run import STUDY, copy_recorded_run, ingested_run


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return ingested_run(tmp_path)


def paths_of(layout: Layout) -> RunPaths:
    return layout.run(STUDY, layout.resolve_run(STUDY))


def edit_measurements(paths: RunPaths) -> None:
    frame = pd.read_parquet(paths.table("measurements"))
    frame["value"] *= 2
    frame.to_parquet(paths.table("measurements"))


def truncate_measurements(paths: RunPaths) -> None:
    file = paths.table("measurements")
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [edit_measurements, truncate_measurements])
def test_edited_or_truncated_table_is_refused_and_rebuilt_for_a_report(layout, damage) -> None:
    paths = paths_of(layout)
    before = read_table(paths.table("measurements"), "measurements")
    damage(paths)
    assert edited_tables(paths) == ["measurements"]
    with pytest.raises(DataError, match=r"measurements\.parquet: changed since") as caught:
        load_run(layout, STUDY)
    assert f"loadbook ingest {STUDY}" in str(caught.value.hint)
    messages: list[str] = []
    ensure_ingested(paths, messages.append)
    assert "measurements changed since the last ingest" in messages[0]
    pd.testing.assert_frame_equal(load_run(layout, STUDY).measurements, before)


def ledger_problems(paths: RunPaths) -> list[str]:
    ingest(paths)
    problems = read_table(paths.table("problems"), "problems")
    return list(problems.loc[problems["file"] == "ledger.jsonl", "message"])


@pytest.mark.parametrize("lost", [1, 2, 9])
def test_lines_removed_from_the_end_of_the_ledger_are_a_doubt(tmp_path: Path, lost: int) -> None:
    paths = paths_of(copy_recorded_run(tmp_path))
    assert ledger_problems(paths) == []
    lines = paths.ledger.read_bytes().splitlines(keepends=True)
    paths.ledger.write_bytes(b"".join(lines[:-lost]))
    (message,) = ledger_problems(paths)
    assert "lines are missing at its end" in message and "loadbook verify" in message
    assert missing_ledger_lines(paths)


def test_unpublished_folder_of_a_trial_is_no_sign_of_a_lost_line_in_the_ledger(tmp_path: Path) -> None:
    paths = paths_of(copy_recorded_run(tmp_path))
    (paths.trials / ".t0033.part").mkdir()
    assert missing_ledger_lines(paths) == ""


def test_page_is_made_even_if_the_record_of_a_trial_is_missing(layout: Layout) -> None:
    from loadbook.analyses.effects.page import EffectsPage

    paths = paths_of(layout)
    (paths.trial("t0001") / "trial.json").unlink()
    ingest(paths)
    page = EffectsPage(load_run(layout, STUDY))
    assert page.setup().text
    problems = page.run_data.problems
    assert "loadbook verify" in str(page.answer().text) or "t0001" in set(problems["trial"].dropna())


@pytest.mark.parametrize("text", ["{", "[]", '{"study_spec": {}}'])
def test_error_on_a_broken_plan_names_the_next_step(tmp_path: Path, text: str) -> None:
    paths = paths_of(copy_recorded_run(tmp_path))
    paths.plan_json.write_text(text)
    with pytest.raises(DataError) as caught:
        ingest(paths)
    assert str(paths.plan_json) in caught.value.message and "loadbook verify" in str(caught.value.hint)
