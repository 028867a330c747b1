"""`loadbook report` takes the newest finished run, and keeps the pages of the run that it reported before."""

import pytest

from report_maker import make_report
from unfinished_runs import NEW, OLD, project_of_two_runs


@pytest.fixture
def two_runs(tmp_path):
    return project_of_two_runs(tmp_path)


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
