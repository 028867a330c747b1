"""scripts/packages.txt names the Debian packages of every study, before loadbook itself is installed."""

import subprocess
from pathlib import Path

import pytest

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
