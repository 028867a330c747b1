"""A study by its name, checked against the services that it names. Needs no host."""

from __future__ import annotations

from pathlib import Path

from loadbook.core.errors import StudyError
from loadbook.design.study import SMOKE, Study, find_study
from loadbook.records.layout import Layout
from loadbook.services import check_study


def load_study(layout: Layout, name: str) -> Study:
    """Return a study that its services accept, too; StudyError names every problem."""
    study = find_study(layout.studies, name)
    problems = check_study(study, service_folders(layout))
    if problems:
        raise StudyError(str(study_file(layout, name)), problems)
    return study


def study_file(layout: Layout, name: str) -> Path:
    """Return the file that a study's name stands for; a smoke variant has its study's."""
    if name.endswith(".toml"):
        return Path(name)
    path = layout.studies / f"{name}.toml"
    return path if path.is_file() else layout.studies / f"{name.removesuffix(SMOKE)}.toml"


def service_folders(layout: Layout) -> list[Path]:
    """Return the folders that are searched for services before those that come with loadbook."""
    return [layout.studies / "services"]
