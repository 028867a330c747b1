"""scripts/packages.txt names the Debian packages of every study, before loadbook itself is installed."""

import subprocess
from pathlib import Path

import pytest

from loadbook.execution.preflight import package_arguments, required_programs
from loadbook.execution.studies import load_study, service_folders
from loadbook.hosts.shell import PREAMBLE, search_path
from loadbook.store.paths import Layout
from loadbook.study.reader import study_files

ROOT = Path(__file__).parents[3]
PACKAGES = ROOT / "scripts" / "packages.txt"
LINES = dict(line.partition(" ")[::2] for line in PACKAGES.read_text().splitlines())


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


def test_program_search_path_adds_the_folders_of_servers_and_of_the_users_own_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/sbin")
    monkeypatch.setenv("HOME", "/home/me")
    assert search_path() == (
        "/usr/bin:/sbin:/usr/local/sbin:/usr/sbin:/usr/local/go/bin:/home/me/go/bin:/home/me/.cargo/bin:/home/me/.local/bin"
        ":/home/me/bin"
    )
    assert ":/usr/sbin:" in PREAMBLE and ":/usr/local/go/bin:$HOME/go/bin:" in PREAMBLE  # what commands on hosts have
