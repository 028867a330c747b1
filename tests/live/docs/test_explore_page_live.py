"""docs/explore.md: every call of its table works on the run that it loads, which comes with loadbook."""

from __future__ import annotations

import re

import pytest

import loadbook as lb
from recorded_run import REPO, with_studies

PAGE = REPO / "docs" / "explore.md"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    layout = with_studies(tmp_path_factory.mktemp("explore") / "home")
    (layout.root / "data" / "raw").mkdir(parents=True)
    for run in ("example", "example-sizes"):
        (layout.root / "data" / run).symlink_to(REPO / "data" / run)
    return layout


def test_every_call_of_the_table_works_on_the_example(home, monkeypatch, tmp_path):
    monkeypatch.setenv("LOADBOOK_HOME", str(home.root))
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    code = text.partition("```python\n")[2].partition("```")[0]
    names: dict[str, object] = {}
    exec(code, names)
    cells = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `run")]
    calls = [call for cell in cells for call in re.findall(r"`([^`]+)`", cell)]
    roots = {True: "run.plot", False: "run"}  # of `.traces(trial="t0007")`, a figure, and of `.traces`, a frame
    requested = [call if call[0] != "." else roots["(" in call] + call for call in calls if ".save" not in call]
    assert len(requested) >= 15 and "run.against()" in requested
    requested.remove("run.against()")  # the example is one run
    for call in requested:
        assert eval(call, names) is not None, call
    assert isinstance(names["lb"], type(lb))


def test_plot_of_page_size_against_rate_has_a_line_for_each_configuration_on_log_axes(home, monkeypatch, tmp_path):
    monkeypatch.setenv("LOADBOOK_HOME", str(home.root))
    monkeypatch.chdir(tmp_path)
    code = PAGE.read_text().partition("## The page size")[2].partition("```python\n")[2].partition("```")[0]
    names: dict[str, object] = {"lb": lb}
    exec(code, names)
    axes = names["plot"].ax  # type: ignore[attr-defined]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    lines = [line.get_xdata() for line in axes.lines if len(line.get_xdata())]
    assert [list(line) for line in lines] == [[1024, 8192, 65536, 262144]] * 2
    assert (tmp_path / "sizes.png").stat().st_size > 10_000
