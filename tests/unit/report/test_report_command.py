"""`loadbook report`: what it prints, what it leaves, and how it ends."""

import pytest

from loadbook.core.errors import UsageError
from loadbook.store.paths import Layout
from mock_project import Arm, make_project
from report_maker import make_report

FEW = {"baseline": Arm(), "aa": Arm(check="aa"), "one": Arm(0.06, label="one")}
QUICK = {"notebooks": ("run_quality",)}


@pytest.fixture
def layout(tmp_path):
    return make_project(tmp_path, FEW, name="quick", blocks=6, **QUICK)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["-p", "studdy=x"], "unknown parameter 'studdy'"),
        (["-p", "study=x"], "given by the command line already"),
        (["-p", "metric"], "not name=value"),
        (["absent"], "no run"),
        (["quick", "--run", "absent"], "no run 'absent'"),
        (["--run", "r", "quick", "quick"], "exactly one STUDY"),
        (["../quick"], "not allowed"),
    ],
)
def test_report_command_with_wrong_arguments_changes_nothing(layout, arguments, printed):
    with pytest.raises(UsageError, match=printed):
        make_report(layout, *arguments)
    assert not layout.reports.exists()


def test_report_command_without_a_run_names_the_next_step(tmp_path):
    for folder in ("studies", "notebooks", "data/raw"):
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(UsageError, match="no study has a run"):
        make_report(Layout(tmp_path))
