"""The service and the study that docs/extending shows are whole: they load and fit each other's rules."""

import re
from pathlib import Path

import pytest

from loadbook.services import check_study, load_service
from loadbook.study.reader import read_study

DOCS = sorted((Path(__file__).parents[3] / "docs").glob("extending*.md"))
BLOCKS = [b for path in DOCS for b in re.findall(r"```toml\n(.*?)```", path.read_text(), re.DOTALL)]
SERVICES = [b for b in BLOCKS if "[commands]" in b]
STUDIES = [b for b in BLOCKS if "[treatments." in b]


def test_docs_page_on_extending_contains_the_tested_examples() -> None:
    assert SERVICES and STUDIES


@pytest.mark.parametrize("text", SERVICES)
def test_docs_page_on_extending_has_a_valid_example_service(tmp_path: Path, text: str) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "service.toml").write_text(text)
    for template in ("index.html.j2", "id.j2"):
        (tmp_path / "toy" / template).write_text("x")
    assert load_service("toy", [tmp_path]).files


@pytest.mark.parametrize("text", STUDIES)
def test_docs_page_on_extending_has_a_valid_example_study(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nopush.toml"
    path.write_text(text)
    assert check_study(read_study(path)) == []
