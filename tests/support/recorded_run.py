"""The recorded run in tests/fixtures: a real lab run of 4 treatments (with A/A arm and positive control) x 8 blocks."""

from __future__ import annotations

import shutil
from pathlib import Path

from loadbook.store.paths import Layout

REPO = Path(__file__).parents[2]
FIXTURE = REPO / "tests/fixtures/recorded-run"
# a plain block for latencies and two interleaved ones, of the study aa
INTERLEAVED_FIXTURE = REPO / "tests/fixtures/recorded-interleaved"
STUDY, INCLUDED = "recorded", "nginx-directives.toml"
# the study file that the recorded one includes, as it was: the repository's own may go on
STUDIES = REPO / "tests/fixtures/recorded-studies"


def copy_recorded_run(tmp_path: Path) -> Layout:
    """Make a project below `tmp_path` with the raw files of the recorded run, without its tables."""
    layout = with_studies(tmp_path / "home")
    shutil.copytree(FIXTURE, layout.study_raw(STUDY), copy_function=shutil.copyfile)
    shutil.copyfile(STUDIES / INCLUDED, layout.studies / INCLUDED)
    shutil.copyfile(run_of(layout) / "study.toml", layout.studies / f"{STUDY}.toml")
    return layout


def ingested_run(tmp_path: Path) -> Layout:
    """Make a project below `tmp_path` with the recorded run and its tables."""
    from loadbook.ingestion.ingest import ingest

    layout = copy_recorded_run(tmp_path)
    ingest(layout.run(STUDY, layout.resolve_run(STUDY)))
    return layout


def run_of(layout: Layout) -> Path:
    """Return the raw folder of the recorded run."""
    return layout.run(STUDY, layout.resolve_run(STUDY)).raw


def with_studies(root: Path) -> Layout:
    """Make an empty project with the repository's studies and notebooks."""
    for name in ("studies", "notebooks"):
        shutil.copytree(REPO / name, root / name, copy_function=shutil.copyfile)
    return Layout(root)
