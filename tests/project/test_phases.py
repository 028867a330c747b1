"""No test is lost between the phases of `make test`: each belongs to one, a file left out has none of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from phases import has_none
from xdist_groups import LONG

ROOT = Path(__file__).parents[2]
PHASES = re.findall(r'\$\(TESTS\).* -m "(.*?)"', (ROOT / "Makefile").read_text(encoding="utf-8"))


def chosen(expression: str, **marks: bool) -> bool:
    return bool(eval(expression, {"__builtins__": {}}, marks))


@pytest.mark.parametrize("lab", [True, False])
@pytest.mark.parametrize("alone", [True, False])
def test_every_test_that_is_not_long_belongs_to_one_phase(lab: bool, alone: bool) -> None:
    assert len(PHASES) == 3
    assert sum(chosen(phase, lab=lab, alone=alone, long=False) for phase in PHASES) == 1
    assert not any(chosen(phase, lab=lab, alone=alone, long=True) for phase in PHASES)


@pytest.mark.parametrize(
    ("expression", "text", "left_out"),
    [
        ("lab and not long", "pytestmark = pytest.mark.alone", True),
        ("lab and not long", "pytestmark = [pytest.mark.lab]", False),
        ("alone and not long", "@pytest.mark.lab", True),
        ("alone and not long", "@pytest.mark.alone", False),
        ("lab or alone", "pytestmark = pytest.mark.alone", False),
        ("lab and long or alone", "pytestmark = pytest.mark.alone", False),
        ("not lab and not alone", "pytestmark = pytest.mark.lab", False),
        ("fault and not alone", "nothing", False),
        ("", "nothing", False),
    ],
)
def test_file_is_left_out_only_without_the_mark(tmp_path: Path, expression: str, text: str, left_out: bool) -> None:
    (tmp_path / "test_x.py").write_text(text)
    assert has_none(tmp_path / "test_x.py", expression) == left_out


def test_marks_of_phases_stand_in_the_files_of_their_tests() -> None:
    """Marks that came from elsewhere would not be seen: there are none in conftest.py and tests/support/."""
    others = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    assert not [path for path in others if re.search(r"mark\.(lab|alone)\b", path.read_text(encoding="utf-8"))]
    renamed = re.compile(r"import mark\b|getattr\(\s*(pytest\.)?mark|add_marker\(\s*['\"](lab|alone)")
    assert not [p for p in (ROOT / "tests").rglob("*.py") if p != Path(__file__) and renamed.search(p.read_text())]


def test_files_that_begin_first_exist() -> None:
    assert len(set(LONG)) == len([file for file in LONG if (ROOT / file).is_file()]) == len(LONG)
