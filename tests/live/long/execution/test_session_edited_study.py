"""A study that was edited between a crash and the next start."""

from __future__ import annotations

import pytest

from controller_processes import loadbook
from lab_study import ON_A_BUSY_MACHINE
from loadbook.store.ledger import read_ledger, trial_states
from recorded_run import with_studies

STUDY = (
    """
include = "aa.toml"
name = "edited"
blocks = 1
"""
    + ON_A_BUSY_MACHINE
)


def outcome(process) -> tuple[int, str]:
    _, err = process.communicate(timeout=200)
    return process.returncode, err


@pytest.mark.fault(10)
def test_edited_study_is_refused_unless_a_new_run_is_started(lab, tmp_path, record_property):
    layout = with_studies(tmp_path / "home")
    file, included = layout.studies / "edited.toml", layout.studies / "aa.toml"
    words = ("run", "edited", "--hosts", str(lab.hosts_file))
    file.write_text(STUDY)
    killed = loadbook(layout, *words)
    for line in killed.stderr:
        if "t0001" in line:
            break
    killed.kill()
    killed.communicate()
    before = included.read_text()
    edits = [
        (file, STUDY.replace("warmup_s = 0.2", "warmup_s = 0.3")),
        (included, before.replace("connections = ", "connections = 1")),
    ]
    for edited, text in edits:
        kept = edited.read_text()
        assert text != kept
        edited.write_text(text)
        code, err = outcome(loadbook(layout, *words))
        assert code == 2
        assert "cannot go on: the study has changed since" in err and "--new" in err
        edited.write_text(kept)
    file.write_text("# a comment is no change\n" + STUDY)
    assert outcome(loadbook(layout, *words))[0] == 0
    file.write_text(STUDY.replace("warmup_s = 0.2", "warmup_s = 0.3"))
    assert outcome(loadbook(layout, *words, "--new"))[0] == 0
    runs = [layout.run("edited", run) for run in layout.runs("edited")]
    assert len(runs) == 2
    assert [{s.status for s in trial_states(read_ledger(paths.ledger)).values()} for paths in runs] == [{"ok"}, {"ok"}]
    assert "0.3" in runs[1].study_toml.read_text() and "0.2" in runs[0].study_toml.read_text()
    record_property("seen", "exit 2 for an edit of the study or of what it includes; a comment is none")
