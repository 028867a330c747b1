"""Outputs of generators that made the load of a trial together: refused as rows of their own, read when joined."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from command_line import exit_code
from import_files import FIXTURES, project, rows, write
from loadbook.store.tables import load_run

CASE = FIXTURES / "cases" / "import_two_generators"


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Call `loadbook import` on the folder `there`, a copy of the case; returns exit code, stdout and stderr."""
    layout, there = project(tmp_path), Path(shutil.copytree(CASE, tmp_path / "there"))
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))

    def run():
        table = str(there / "conditions.csv")
        code = exit_code(monkeypatch, "import", str(there), "--conditions", table, "--baseline", "keep", "--study", "s")
        out, err = capsys.readouterr()
        return code, out, err

    run.there, run.layout = there, layout  # type: ignore[attr-defined]
    return run


def test_row_for_each_generator_of_a_trial_is_refused_with_how_to_join_them(call):
    code, out, err = call()
    assert (code, out) == (2, "") and "number the blocks" not in err
    lines = err.splitlines()
    assert lines[0].endswith("conditions.csv: 10 problems; nothing was imported")
    assert lines[1] == (
        "  line 3: a second row of treatment 'close' in block '1', after line 2: one trial has one output; join "
        "those of several generators below one header, or let JMeter's controller write one; a repetition has a block "
        "of its own"
    )


def test_joined_outputs_of_two_generators_are_a_trial_each_with_the_sum_of_their_requests(call):
    for first in sorted(call.there.glob("*-gen-a.jtl")):
        second = first.with_name(first.name.replace("gen-a", "gen-b"))
        header, *lines = second.read_text().splitlines(keepends=True)
        assert first.read_text().startswith(header)
        first.write_text(first.read_text() + "".join(lines))
    write(call.there, [row for row in rows(call.there) if row["host"] == "gen-a"])
    code, out, err = call()
    assert (code, err) == (0, "") and "5 blocks of close, keep" in out and "10 of 10 count" in out
    requests = load_run(call.layout, "s").values("requests")["value"]
    assert len(requests) == 10 and set(requests) == {80.0}  # 40 requests of each generator


def test_rows_of_another_tool_are_refused_with_what_can_be_compared(call):
    changed = [row | {"file": "a.txt" if row["host"] == "gen-a" else "b.txt"} for row in rows(call.there)[:2]]
    for row in changed:
        (call.there / row["file"]).write_text("Requests/sec: 5\n")
    write(call.there, changed)
    assert (
        "after line 2: one trial has one output; add up the rates of several generators, and compare them in a CSV "
        "(loadbook compare); a repetition has a block of its own"
    ) in call()[2]
