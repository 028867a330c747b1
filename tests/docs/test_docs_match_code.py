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


@pytest.mark.parametrize(("folder", "study"), [("recorded-run", "recorded"), ("recorded-interleaved", "interleaved")])
def test_readme_offline_examples_use_the_recorded_studies(folder: str, study: str) -> None:
    (recorded,) = (ROOT / "tests/fixtures" / folder).iterdir()
    example = ROOT / f"tests/fixtures/recorded-studies/{study}.toml"
    readme = (ROOT / "README.md").read_text()
    assert "tests/fixtures/recorded-studies/" in readme and example.name in readme and folder in readme
    assert example.read_text() == (recorded / "study.toml").read_text()
