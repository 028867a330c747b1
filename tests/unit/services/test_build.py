"""What comes as sources is built once per program and host: there, or here and carried; and else says why not."""

import os
import shutil
from pathlib import Path

import pytest

from loadbook.core.errors import StudyError
from loadbook.services import ServiceSpec, load_service
from loadbook.services.build import build_command

SERVICE = """
name = "made"
about = "a page that a maker makes"
binary = "python3"
package = "python3"
[build]
sources = ["recipe.sh", "parts/page.txt"]
needs = ["maker"]
get = "apt-get install maker"
version = { argv = ["maker", "-c", "echo maker 1.2"], pattern = 'maker ([0-9.]+)' }
argv = ["maker", "recipe.sh", "{{ arch }}"]
env = { FLAVOUR = "plain" }
output = "out/index.html"
timeout_s = 5
[build.arch]
pdp11 = "PDP-11"
[commands]
start = ["python3", "-m", "http.server", "-b", "{{ address }}", "-d", "{{ built }}/out", "{{ port }}"]
"""
RECIPE = 'mkdir -p out; echo "$1 $FLAVOUR $(cat parts/page.txt)" >out/index.html; echo x >>"$COUNT"\n'


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that this machine has, and the hosts of these tests unless they are told not to."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "maker").symlink_to(shutil.which("sh") or "/bin/sh")
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    return bin_folder


def made(tmp_path: Path, recipe: str = RECIPE, **build_keys: object) -> ServiceSpec:
    own = tmp_path / "services" / "made"
    (own / "parts").mkdir(parents=True, exist_ok=True)
    (own / "service.toml").write_text(SERVICE)
    (own / "recipe.sh").write_text(recipe)
    (own / "parts" / "page.txt").write_text("page")
    spec = load_service("made", [tmp_path / "services"])
    assert spec.build is not None
    return spec.model_copy(update={"build": spec.build.model_copy(update=build_keys)})


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
