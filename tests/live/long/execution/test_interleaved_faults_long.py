"""Faults in mid-slice of an interleaved block: a cut link, a full disk, a driver whose jobs are killed as by a reboot.

After each no stopped process is on a host, every attempt is recorded, and the run is complete. A killed controller, a
server that dies and a generator that hangs are in test_interleaved_lab, a frozen server in test_stall_lab.
"""

from __future__ import annotations

import pytest

from controller_processes import jobs_left, must_be_whole
from interleaved_faults import TRIALS, run_small, statuses

CUT_S = 8.0


@pytest.mark.root
def test_link_that_is_cut_in_mid_slice_costs_no_trial(spaces, tmp_path):
    paths = run_small(spaces, tmp_path / "home", 4, lambda: spaces.cut_link("driver", CUT_S))
    must_be_whole(paths, TRIALS)
    assert [status for status in statuses(paths) if status[1]] == [("ok", True)] * 4
    assert jobs_left(spaces) == []
