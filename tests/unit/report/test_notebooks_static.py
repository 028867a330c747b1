"""The rules of notebooks (design.md section 7), kept by every notebook in the repository."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

from loadbook import _VERBS
from loadbook.report.parameters import parse_literals

NOTEBOOKS = sorted((Path(__file__).parents[3] / "notebooks").glob("*.ipynb"))
FORBIDDEN = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.For, ast.While, ast.Try, ast.With, ast.If,
)  # fmt: skip
WORDS = re.compile(r"\b(subprocess|open|exec|eval|sys|os|re|Path|pathlib|glob|password|token)\b|[/~]")


@pytest.fixture(params=NOTEBOOKS, ids=lambda p: p.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def is_by_hand(cell):
    return "notebook-only" in cell.metadata.get("tags", [])


def code(notebook):
    """Return the cells of the page, without those of the section by hand."""
    return [c for c in notebook.cells if c.cell_type == "code" and not is_by_hand(c)]


def test_required_notebooks_exist():
    assert {p.stem for p in NOTEBOOKS} >= {"run_study", "run_quality", "config_effects"}


def test_notebook_is_valid_for_the_python_kernel(notebook):
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"


def test_notebook_has_no_outputs_or_counts(notebook):
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    assert all(c.outputs == [] and c.execution_count is None for c in cells)


def test_notebook_has_one_parameters_cell_of_literals(notebook):
    tagged = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    assert len(tagged) == 1
    declared = parse_literals(tagged[0].source)
    assert "study" in declared
    for name, value in declared.items():
        assert isinstance(value, str | bool | int | float), name
        assert not re.search(r"[/\\~@]", str(value)), f"{name} is a path or an address"


def test_notebook_checks_parameters_first(notebook):
    cells = [c.source for c in code(notebook)]
    assert "lb.check_parameters()" in cells[1]
    assert cells[1].startswith("import loadbook as lb")


def test_notebook_cells_are_short_and_few(notebook):
    cells = code(notebook)
    assert len(cells) <= 22
    assert all(len(c.source.splitlines()) <= (8 if "parameters" in c.metadata.get("tags", []) else 5) for c in cells)
    assert sum(len(c.source.splitlines()) for c in cells) / len(cells) <= 3


def test_notebook_cells_only_load_or_call_or_display(notebook):
    for cell in code(notebook):
        tree = ast.parse(cell.source)
        assert not [n for n in ast.walk(tree) if isinstance(n, FORBIDDEN)], cell.source
        imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        allowed = {"loadbook", "seaborn"}  # to explore, a notebook draws by itself
        assert all(isinstance(n, ast.Import) and n.names[0].name in allowed for n in imports), cell.source
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
        assert len(calls) <= 2, cell.source
        if "parameters" not in cell.metadata.get("tags", []):
            assert not WORDS.search(cell.source), cell.source


def test_section_by_hand_shows_the_frame_and_calculates_in_ten_lines(notebook):
    cells = [c.source for c in notebook.cells if c.cell_type == "code" and is_by_hand(c)]
    if not cells:
        return
    frame, imports, calculation = cells
    assert frame.splitlines() == ["answer = page.data()", "answer"]
    assert imports.startswith("import ") and len(imports.splitlines()) <= 3
    assert len(calculation.splitlines()) <= 10 and "read_parquet" in calculation and "sns." in calculation
    assert not [n for n in ast.walk(ast.parse(calculation)) if isinstance(n, FORBIDDEN)]


def test_notebook_calls_public_functions_only(notebook):
    used = {name for c in code(notebook) for name in re.findall(r"\blb\.(\w+)", c.source)}
    assert used <= set(_VERBS)


def test_headings_are_questions(notebook):
    headings = [
        line for c in notebook.cells if c.cell_type == "markdown" for line in c.source.splitlines() if line[:1] == "#"
    ]
    assert headings
    assert all(line.endswith("?") for line in headings), headings


def test_notebook_markdown_has_no_html(notebook):
    assert not any(re.search(r"[<>]|\]\((?:\w+:|/)", c.source) for c in notebook.cells if c.cell_type == "markdown")
