"""What comes as sources is built once per program and host: there, or here and carried; and else says why not."""

from pathlib import Path

import pytest

from built_service import SERVICE, made
from loadbook.core.errors import StudyError
from loadbook.services import load_service
from loadbook.services.build import build_command


def test_error_names_an_unknown_variable_in_a_build_recipe(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"service made: 1 problem\n  build: UndefinedError: 'flavour' is undefined"):
        build_command(made(tmp_path, argv=("maker", "{{ flavour }}")), "vax")


def test_error_names_a_missing_source_file_of_a_build(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "services" / "made" / "recipe.sh").unlink()
    with pytest.raises(StudyError, match=r"build.sources: file recipe.sh is not there"):
        load_service("made", [tmp_path / "services"])


def test_service_is_either_installed_or_built(tmp_path: Path) -> None:
    made(tmp_path)
    path = tmp_path / "services" / "made" / "service.toml"
    path.write_text(SERVICE.split("[build]")[0] + "[commands]\nstart = ['x']\n")
    with pytest.raises(StudyError, match=r"neither \[version\] nor \[build\]"):
        load_service("made", [tmp_path / "services"])
