"""scripts/packages.txt names the Debian packages of every study, before loadbook itself is installed."""

import subprocess
from pathlib import Path

import pytest

from loadbook.execution.preflight import package_arguments, required_programs
from loadbook.execution.studies import load_study, service_folders
from loadbook.store.paths import Layout
from loadbook.study.reader import study_files

ROOT = Path(__file__).parents[3]
PACKAGES = ROOT / "scripts" / "packages.txt"
LINES = dict(line.partition(" ")[::2] for line in PACKAGES.read_text().splitlines())


def make_variable(name: str, study: str = "nginx-directives") -> list[str]:
    """Return what a recipe of the Makefile is given for a variable."""
    rule = f"include {ROOT / 'Makefile'}\nshow-value:\n\t@echo $({name})\n"
    command = ["make", "-s", "-f", "-", "show-value", f"STUDY={study}"]
    return subprocess.run(command, cwd=ROOT, input=rule, capture_output=True, text=True, check=True).stdout.split()


def test_make_test_live_requests_the_debian_packages_of_all_studies_at_once() -> None:
    expected = sorted({package for line in LINES.values() for package in line.split()})
    assert sorted(make_variable("OF_ALL_STUDIES")) == expected
    recipe = (ROOT / "Makefile").read_text().split("setup-live:\n")[1].splitlines()
    assert "$(BROWSER)" in recipe[0] and "$(OF_ALL_STUDIES)" in recipe[0]


@pytest.mark.parametrize("study", ["nginx-directives", "lb-vs-single", "of-my-own"])
def test_make_report_requests_the_debian_packages_of_its_study_at_once(study: str) -> None:
    assert make_variable("OF_STUDY", study) == LINES.get(study, "").split()


def shipped_studies(layout: Layout) -> list[Path]:
    """Return the study files in git; without git all, among them those that a user has made by `loadbook new`."""
    listed = subprocess.run(["git", "ls-files", "studies"], cwd=ROOT, capture_output=True, text=True, check=False)
    files = study_files(layout.studies)
    in_git = set(listed.stdout.split())
    return [path for path in files if str(path.relative_to(ROOT)) in in_git] if in_git else list(files)


def test_list_of_debian_packages_per_study_is_up_to_date() -> None:
    layout = Layout(ROOT)
    for path in shipped_studies(layout):
        programs = required_programs(load_study(layout, path.stem), service_folders(layout))
        needed = {program.binary: program for each in programs.values() for program in each}
        assert LINES.get(path.stem, "").split() == sorted(package_arguments(needed.values())), "make packages"
    assert set(LINES) == {path.stem for path in shipped_studies(layout)}, "make packages"
