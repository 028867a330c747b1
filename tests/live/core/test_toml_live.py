"""Files that people write: one error with its place whatever they hold, in a second and in little memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loadbook.core.toml import MAX_BYTES
from loadbook.hosts.inventory import read_hosts
from loadbook.services.spec import load_service
from loadbook.study.reader import read_study
from peak_memory import PEAK

pytestmark = pytest.mark.fault(46)


def service(folder: Path) -> object:
    return load_service("bad", [folder])


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "study": ("bad.toml", lambda folder: read_study(folder / "bad.toml")),
    "hosts": ("hosts.toml", lambda folder: read_hosts(folder / "hosts.toml")),
    "service": ("bad/service.toml", service),
}


LARGE = (
    PEAK
    + """
import sys
sys.path[:0] = [{folder_of_test!r}, {folder_of_test!r} + "/../../support"]
from pathlib import Path
from loadbook.core.errors import StudyError
import test_toml_live as t
before = peak_bytes()
for name, read in t.READERS.values():
    try:
        read(Path({folder!r}))
    except StudyError as error:
        assert "larger than 1,000,000 bytes" in error.message, error.message
    else:
        raise SystemExit("it was read")
print((peak_bytes() - before) // 1024)
"""
)


def test_toml_file_of_100_mb_is_refused_without_reading_it(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    for name, _ in READERS.values():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with (tmp_path / name).open("wb") as file:
            file.truncate(100_000_000)
    code = LARGE.format(folder_of_test=str(Path(__file__).parent), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    grown_kb = int(done.stdout)
    record_property("seen", f"a file of 100 MB: refused with {grown_kb / 1024:.1f} MB of memory more")
    assert grown_kb * 1024 < 20 * MAX_BYTES
