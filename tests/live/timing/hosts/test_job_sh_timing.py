"""job.sh by itself, under every shell that a host may have as /bin/sh."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from job_sh import SHELLS, prepare, start, with_job_sh
from waiting import PATIENCE_S


@pytest.fixture(params=SHELLS)
def shell(request) -> list[str]:
    return SHELLS[request.param]


@pytest.fixture
def work(tmp_path) -> Path:
    return with_job_sh(tmp_path)


def starts_and_ends(folder: Path, step: int) -> list[float]:
    return [float(word) for word in (folder / f"times.{step}").read_text().split()]


def test_job_last_step_waits_for_its_start_time(shell, work):
    folder = prepare(work, "a", "true", "true", "true")
    at = time.time() + 0.7
    (folder / "at.2").write_text(f"{at:.3f}\n")
    (folder / "at.3").write_text(f"{at - 100:.3f}\n")  # one that is over is no reason to wait
    start(shell, work, "a").wait(PATIENCE_S)
    assert starts_and_ends(folder, 1)[1] < at - 0.2
    assert -0.004 <= starts_and_ends(folder, 2)[0] - at < 0.1
    assert starts_and_ends(folder, 3)[1] < at + 0.3


def test_job_last_step_waits_for_full_second_where_date_has_no_fractions(shell, work):
    coarse, fine = work / "bin/date", shutil.which("date")
    coarse.parent.mkdir()
    coarse.write_text(f'#!/bin/sh\n[ "$1" = +%s.%N ] && set -- +%s.N\nexec {fine} "$@"\n')
    coarse.chmod(0o755)
    folder = prepare(work, "a", f"exec {fine} +%s.%N")
    at = time.time() + 1.3
    (folder / "at.1").write_text(f"{at:.3f}\n")
    start(shell, work, "a", path=f"{coarse.parent}:/usr/bin:/bin").wait(PATIENCE_S)
    began = float((folder / "stdout.1").read_text())
    assert int(at) <= began < int(at) + 0.3
