"""`loadbook batch`: real workers, kernels and a recorded run; what is kept, said and returned, whatever is killed."""

from __future__ import annotations

import json

import pytest

from batch_projects import BOTH, batch_file, kept, project_of_replays
from controller_processes import loadbook
from loadbook.report import notebooks

PATIENCE_S = 200  # kernels of a machine that is busy come up slowly


@pytest.fixture
def layout(tmp_path):
    return project_of_replays(tmp_path / "home")


def test_batch_entry_is_run_reported_and_listed(layout):
    done = loadbook(layout, "batch", str(batch_file(layout, BOTH[0])), "--json")
    out, err = done.communicate(timeout=PATIENCE_S)
    assert done.returncode == 0, err
    (row,) = kept(layout)["entries"]
    assert json.loads(out) == kept(layout)
    assert (row["state"], row["run"], row["summary"]["valid"]) == ("done", *layout.runs("first"), 4)
    assert notebooks.read_sentinel(layout.batch("nightly") / row["pages"][0]["executed"])
    assert "[4/4] block 1 of 1" in err and "1 of 1 entries are over" in err
