"""Which study files are studies, which are variants of one, and what `loadbook studies` says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import exit_code
from loadbook.study.reader import is_variant, read_study, study_files
from recorded_run import copy_recorded_run


@pytest.fixture
def project(tmp_path, monkeypatch):
    layout = copy_recorded_run(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    return layout


# their own question is one of the checks, or nothing is compared (certified-capacity)
WITHOUT_CONTROL = {"aa", "noise", "known-cost", "known-cost-cpu", "known-capacity", "certified-capacity"}


def test_shipped_studies_have_a_positive_control():
    shipped = [read_study(path) for path in study_files(Path(__file__).parents[3] / "studies")]
    without = {s.name for s in shipped if all(t.check != "control" for t in s.treatments.values())}
    assert without == WITHOUT_CONTROL


def test_variants_of_a_study_are_recognised(project):
    (project.studies / "aa-article.toml").write_text('include = "aa.toml"\nname = "aa-article"\nblocks = 40\n')
    (project.studies / "aa-asks.toml").write_text('include = "aa.toml"\nname = "aa-asks"\nquestion = "Another one?"\n')
    (project.studies / "aa-asks-article.toml").write_text('include = "aa.toml"\nquestion = "Of an article?"\n')
    (project.studies / "torn.toml").write_text("name = ")
    variants = {path.stem for path in study_files(project.studies) if is_variant(path)}
    assert variants & {"aa", "aa-article", "aa-asks", "aa-asks-article", "torn"} == {"aa-article", "aa-asks-article"}


def test_studies_command_lists_every_study_with_trials_and_times(project, monkeypatch, capsys):
    (project.studies / "aa-article.toml").write_text('include = "aa.toml"\nname = "aa-article"\nblocks = 40\n')
    (project.studies / "torn.toml").write_text("name = ")
    assert exit_code(monkeypatch, "studies", "--json") == 0
    rows = {row["study"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {path.stem for path in study_files(project.studies)}
    assert rows["aa"]["standard"]["trials"] == 16
    assert rows["aa"]["smoke"]["trials"] == 12
    assert (rows["aa-article"]["smoke"], rows["aa-article"]["standard"]["blocks"]) == (None, 40)
    assert "torn.toml" in rows["torn"]["error"]
    assert exit_code(monkeypatch, "studies") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ", 1)[1].strip() == "Does this laboratory see a difference where there is none?"
    assert lines[1].strip().startswith("16 trials (8 blocks of 2), ")
    assert any(line.startswith("torn") and "cannot be read" in line for line in lines)
