"""A study whose newest run is not finished."""

from __future__ import annotations

import json
from pathlib import Path

from loadbook.store.paths import Layout
from mock_project import Arm, make_project

OLD, NEW = "20261120T101500", "20261121T101500"
FEW = {"baseline": Arm(), "aa": Arm(check="aa"), "one": Arm(0.06, label="one")}


def project_of_two_runs(root: Path) -> Layout:
    """Make a project with a finished run and a newer one that was interrupted."""
    for run in (OLD, NEW):
        layout = make_project(root, FEW, name="quick", blocks=6, run=run, notebooks=("run_quality",))
    record = layout.run("quick", NEW).run_json
    record.write_text(json.dumps(json.loads(record.read_text()) | {"ended": None}))
    return layout
