"""The documents say what the code does: tables of metrics and columns, and every command of the README."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from loadbook.cli import COMMANDS
from loadbook.core.metrics import METRICS
from loadbook.store.tables import TABLES

ROOT = Path(__file__).parents[2]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_data_format_lists_every_metric_with_its_unit() -> None:
    text = (ROOT / "docs" / "data-format.md").read_text()
    for metric in METRICS.values():
        assert f"| `{metric.name}` | {metric.unit} |" in text, metric.name


def test_data_format_lists_every_column_with_its_type() -> None:
    text = (ROOT / "docs" / "data-format.md").read_text()
    for table, columns in TABLES.items():
        section = text.split(f"### {table}")[1].split("###")[0]
        shown = re.findall(r"^\| `([a-z0-9_]+)` \| `(\S+)` \| \S", section.split("\n\n")[0], re.MULTILINE)
        assert shown == [column for column in columns.items() if column[0] not in ("study", "run", "trial")], table
        assert list(columns)[:3] == ["study", "run", "trial"]


def commands() -> list[str]:
    found: set[str] = set()
    for path in DOCS:
        for block in re.findall(r"```(?:sh|console)?\n(.*?)```", path.read_text(), re.DOTALL):
            found |= set(re.findall(r"^\$? ?loadbook ([a-z]+(?: [a-z]+)?)", block, re.MULTILINE))
    return sorted(found)


@pytest.mark.parametrize("command", commands())
def test_documented_commands_exist(command: str) -> None:
    words = command.split()
    assert words[0] in COMMANDS, f"the documents use `loadbook {command}`"
    shown = words if words[0] in ("lab", "hosts") else words[:1]
    run = [sys.executable, "-c", "from loadbook.cli import main; main()", *shown, "--help"]
    assert subprocess.run(run, capture_output=True, check=False, timeout=60).returncode == 0


def test_local_links_of_the_documents_exist() -> None:
    for path in DOCS:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_readme_offline_example_uses_the_recorded_study() -> None:
    (recorded,) = (ROOT / "tests/fixtures/recorded-run").iterdir()
    example = ROOT / "tests/fixtures/recorded-studies/recorded.toml"
    assert str(example.relative_to(ROOT)) in (ROOT / "README.md").read_text()
    assert example.read_text() == (recorded / "study.toml").read_text()
