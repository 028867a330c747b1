"""A host's disk fills up in mid-trial, for real: a small tmpfs where the driver works (as root), or a limit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from full_host_disk import FILL, WRK, disk_of_its_own
from loadbook.core.errors import LoadbookError, PreflightError
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loopback_labs import own_lab
from misbehaving_tools import MisbehavingLab, Ran, home_for_fakes
from recorded_run import with_studies

pytestmark = pytest.mark.fault(30)


@pytest.fixture
def misbehaving_lab(tmp_path) -> Iterator[MisbehavingLab]:
    with home_for_fakes(tmp_path / "fakes") as bin_, own_lab() as lab:
        yield MisbehavingLab(lab, bin_, with_studies(tmp_path / "home"))


@pytest.fixture
def small(misbehaving_lab) -> Iterator[MisbehavingLab]:
    with disk_of_its_own(misbehaving_lab):
        yield misbehaving_lab


@pytest.mark.root
def test_host_disk_that_stays_full_stops_the_run_until_space_is_free(small, record_property):
    filler = small.lab.folder / "driver" / "work" / "filler"
    small.fake("wrk", f'[ -e {small.bin}/fine ] || {{ {FILL.format(file=filler)}; }}\nexec "$real" "$@"')
    small.study(WRK, blocks=5)
    with pytest.raises(LoadbookError) as stopped:
        run_study(small.layout, RunRequest("rude", small.lab.hosts_file))
    assert stopped.value.exit_code == 3
    assert "3 trials in a row were lost, the last because reset: host driver: remote disk full: " in str(stopped.value)
    record_property("seen", str(stopped.value).replace(str(small.lab.folder), "..."))
    with pytest.raises(PreflightError, match=r"host driver: .* free at .*, .* needed"):
        run_study(small.layout, RunRequest("rude", small.lab.hosts_file))
    (small.bin / "fine").touch()
    for file in filler.parent.glob("filler*"):
        file.unlink()
    ran = Ran(small.layout.run("rude", run_study(small.layout, RunRequest("rude", small.lab.hosts_file))))
    assert [status for status, _ in ran.ends] == ["ok"] * 5
    assert len(list(ran.paths.failed.iterdir())) == 3
