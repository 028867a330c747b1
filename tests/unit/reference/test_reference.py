"""docs/reference says what the code says: every command, verb, object and key, none without a word of what it is."""

import re

import pytest
import reference_pages
from reference_pages import COMMAND, FOLDER, PAGES

import loadbook
from loadbook.cli import COMMANDS
from loadbook.core.validity_rules import RULE_INFO
from loadbook.store.columns import COLUMNS


@pytest.mark.parametrize("name", PAGES)
def test_reference_page_matches_the_code(name: str) -> None:
    assert (FOLDER / name).read_text() == reference_pages.written(name), f"out of date; run: {COMMAND}"


def test_reference_index_names_every_page() -> None:
    text = (FOLDER.parent / "README.md").read_text()
    of_results = ("calibration.md", "simulations.md")  # printed by benchmarks/calibration.py and validation.py
    pages = sorted([*PAGES, *of_results])
    assert sorted(path.name for path in FOLDER.glob("*.md")) == pages
    assert all(f"](reference/{name})" in text for name in pages)


def test_every_table_begins_with_the_columns_that_name_a_trial() -> None:
    assert all(list(columns)[:3] == ["study", "run", "trial"] for columns in COLUMNS.values())


def test_reference_covers_every_command_and_every_function_of_the_notebook_api() -> None:
    commands, verbs = ((FOLDER / name).read_text() for name in ("command-line.md", "python.md"))
    assert [name for name in COMMANDS if f"\n## loadbook {name}\n" not in commands] == []
    assert [name for name in loadbook._VERBS if f"\n### lb.{name}\n" not in verbs] == []


@pytest.mark.parametrize("name", PAGES)
def test_reference_tables_have_a_meaning_in_every_row(name: str) -> None:
    rows = [line for line in (FOLDER / name).read_text().splitlines() if line.startswith("| ") and line.endswith("| |")]
    assert rows == [], f"{rows[0]}: say it in the docstring or help text, then run: {COMMAND}"


@pytest.mark.parametrize("name", PAGES)
def test_reference_links_lead_to_existing_targets(name: str) -> None:
    text = (FOLDER / name).read_text()
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9_ -]", "", head.lower()).replace(" ", "-") for head in heads}
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= anchors
    assert [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not (FOLDER / link).exists()] == []


def test_reference_lists_every_validity_rule_with_a_threshold() -> None:
    text = (FOLDER / "study-file.md").read_text()
    assert [g.name for g in RULE_INFO.values() if g.thresholds and f"`{g.name}`" not in text] == []
