"""Notebooks through papermill: ours only, known parameters only, and success means that the end was reached."""

import pytest

from loadbook.core.errors import UsageError
from loadbook.report import notebooks
from mock_project import Arm, make_project

FEW = {"baseline": Arm(), "aa": Arm(check="aa"), "one": Arm(0.06, label="one")}


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("notebooks"), FEW, blocks=6)


@pytest.mark.fault(50)
@pytest.mark.parametrize("name", ["absent", "../good", "https://example.com/x", "good.ipynb", ""])
def test_only_notebooks_of_the_project_are_executed(layout, tmp_path, name):
    with pytest.raises(UsageError, match="no notebook"):
        notebooks.execute_notebook(layout, name, {}, tmp_path / "o.ipynb")


@pytest.mark.fault(50)
def test_link_to_a_notebook_elsewhere_is_refused(layout, tmp_path):
    (tmp_path / "evil.ipynb").write_text((layout.notebooks / "run_study.ipynb").read_text())
    (layout.notebooks / "evil.ipynb").symlink_to(tmp_path / "evil.ipynb")
    with pytest.raises(UsageError, match="no notebook"):
        notebooks.find_notebook(layout, "evil")


@pytest.mark.fault(47)
def test_unknown_parameter_is_refused_before_a_kernel_starts(layout, tmp_path):
    with pytest.raises(UsageError, match=r"unknown parameter 'studdy'; did you mean 'study'\?"):
        notebooks.execute_notebook(layout, "config_effects", {"studdy": "x"}, tmp_path / "o.ipynb")
    assert list(tmp_path.iterdir()) == []
