"""A project with the study of the recorded run, and a hosts file that replays the run's recorded answers."""

from __future__ import annotations

import shutil
from pathlib import Path

from loadbook.store import trial_record
from loadbook.store.paths import Layout
from recorded_run import FIXTURE, INCLUDED, STUDIES, STUDY, with_studies

BLOCKS = 30


def replayable_project(root: Path) -> tuple[Layout, str]:
    """Make the project; return it and the path of its hosts file relative to the project."""
    layout = with_studies(root)
    shutil.copyfile(STUDIES / INCLUDED, layout.studies / INCLUDED)
    shutil.copytree(FIXTURE, layout.root / "recording")
    (run,) = (layout.root / "recording").iterdir()
    shutil.copyfile(run / "study.toml", layout.studies / f"{STUDY}.toml")
    return layout, f"recording/{run.name}/hosts.toml"


def longer(layout: Layout, hosts: str) -> None:
    """Extend the recording to 30 blocks (120 trials) by repeating its blocks."""
    folder = (layout.root / hosts).parent
    for path in sorted(folder.glob("*/*/trial.json")):
        record = trial_record.read_trial(path.parent)
        for block in range(record.block + 8, BLOCKS + 1, 8):
            name = f"{path.parent.name}-{block}"
            shutil.copytree(path.parent, folder / "trials" / name)
            trial_record.seal_trial(folder / "trials" / name, record.model_copy(update={"block": block}))
    study = layout.studies / f"{STUDY}.toml"
    study.write_text(study.read_text().replace("blocks = 8", f"blocks = {BLOCKS}"))
