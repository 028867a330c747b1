"""`loadbook batch`: real workers, kernels and a recorded run; what is kept, said and returned, whatever is killed."""

from __future__ import annotations

import pytest

from batch_projects import BOTH, REPLAY, batch_file, project_of_replays
from command_line import exit_code


@pytest.fixture
def layout(tmp_path):
    return project_of_replays(tmp_path / "home")


def test_batch_dry_run_prints_order_hours_and_pages(layout, monkeypatch, capsys):
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    assert exit_code(monkeypatch, "batch", str(batch_file(layout, *BOTH)), "--dry-run", "--jobs", "1") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("batch nightly: a new round; what it would do, nothing was touched\n8 trials, about ")
    assert f"1. first on {REPLAY}: at once" in printed
    assert f"2. second on {REPLAY}: after " in printed
    assert "second-1-blocks-latency-hosts.html: metric = latency" in printed
    assert not (layout.root / "reports").exists() and not (layout.root / "data").exists()


@pytest.mark.parametrize(
    ("text", "words", "printed"),
    [
        ('[[entry]]\nstudy = "firts"', [], "entry.0.study (line 1): no study 'firts'"),
        ('[[entry]]\nstudy = "first"', ["--new", "--failed"], "--new begins another round"),
        ('[[entry]]\nstudy = "first"', ["--failed"], "has had no round yet"),
    ],
)
def test_batch_with_errors_exits_with_2_and_changes_nothing(layout, monkeypatch, capsys, text, words, printed):
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    path = layout.root / "nightly.toml"
    path.write_text(text)
    assert exit_code(monkeypatch, "batch", str(path), *words) == 2
    assert printed in capsys.readouterr().err
    assert not (layout.root / "data").exists()
