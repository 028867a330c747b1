"""The documents name commands and files that exist."""

import re
from pathlib import Path

import pytest

from command_line import exit_code
from loadbook.cli import COMMANDS

ROOT = Path(__file__).parents[3]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    found: set[str] = set()
    for path in DOCS:
        for block in re.findall(r"```(?:sh|console)?\n(.*?)```", path.read_text(), re.DOTALL):
            found |= set(re.findall(r"^\$? ?loadbook ([a-z]+(?: [a-z]+)?)", block, re.MULTILINE))
    return sorted(found)


@pytest.mark.parametrize("command", commands())
def test_documented_commands_exist(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = command.split()
    assert words[0] in COMMANDS, f"the documents use `loadbook {command}`"
    displayed = words if words[0] in ("lab", "hosts") else words[:1]
    assert exit_code(monkeypatch, *displayed, "--help") == 0


def test_local_links_of_the_documents_exist() -> None:
    for path in DOCS:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


@pytest.mark.parametrize(
    ("page", "folder", "study"),
    [
        ("docs/installation.md", "recorded-run", "recorded"),
        ("docs/interleaving.md", "recorded-interleaved", "interleaved"),
    ],
)
def test_offline_examples_use_the_recorded_studies(page: str, folder: str, study: str) -> None:
    (recorded,) = (ROOT / "tests/fixtures" / folder).iterdir()
    example = ROOT / f"tests/fixtures/recorded-studies/{study}.toml"
    text = (ROOT / page).read_text()
    assert "tests/fixtures/recorded-studies/" in text and example.name in text and folder in text
    assert example.read_text() == (recorded / "study.toml").read_text()
