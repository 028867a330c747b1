"""`loadbook report` takes the newest finished run, and keeps the pages of the run that it reported before."""

import json

import pytest

from mock_project import Arm, make_project
from report_maker import make_report

OLD, NEW = "20261120T101500", "20261121T101500"
FEW = {"baseline": Arm(), "aa": Arm(check="aa"), "one": Arm(0.06, label="one")}


@pytest.fixture
def two_runs(tmp_path):
    """A project with a finished run and a newer one that was interrupted."""
    for run in (OLD, NEW):
        layout = make_project(tmp_path, FEW, name="quick", blocks=6, run=run, notebooks=("run_quality",))
    record = layout.run("quick", NEW).run_json
    record.write_text(json.dumps(json.loads(record.read_text()) | {"ended": None}))
    return layout


def test_report_and_index_name_the_interrupted_run_and_the_command_that_resumes_it(two_runs):
    made = make_report(two_runs, "quick", "--format", "md")
    assert made.exit_code == 0, made.stderr
    assert f"run {NEW} is not finished, so this is the report of run {OLD}; next: loadbook run quick" in made.stderr
    index = (two_runs.reports / "index.html").read_text()
    assert f"Run {NEW} is newer and not finished." in index and "<code>loadbook run quick</code>" in index
    markdown = (two_runs.reports / "quick.md").read_text()
    assert markdown.startswith("# Can the data of this run be trusted?")
    assert "\n## Which trials count?\n" in markdown
    assert "| Treatment |" in markdown and "|---" not in markdown.replace("| ---", "")
    assert "<div" not in markdown
