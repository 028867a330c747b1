"""One process per study folder, and what becomes of a second one."""

from __future__ import annotations

import errno
import json
import os

import pytest

from loadbook.core.errors import UsageError
from loadbook.store.atomic import (
    DiskFullError,
    atomic_path,
    disk_full_message,
    explain_disk_full,
    hold_study_lock,
    write_atomic,
)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_study_lock_is_released_after_use(tmp_path, error):
    for _ in range(2):
        try:
            with hold_study_lock(tmp_path / "study") as taken_over:
                assert taken_over == ""
                if error:
                    raise error
        except KeyboardInterrupt:
            assert error


def test_study_in_use_is_refused_with_the_process_that_uses_it(tmp_path, clock):
    with hold_study_lock(tmp_path / "study"):
        clock.turn(120)
        printed = rf"is in use by process {os.getpid()} of .* started 2\smin ago"
        with pytest.raises(UsageError, match=printed) as refused, hold_study_lock(tmp_path / "study"):
            pass
        assert refused.value.hint == f"wait for its end, or end it: kill {os.getpid()}"
        lock = tmp_path / "study" / ".lock"
        lock.write_text(json.dumps(json.loads(lock.read_bytes()) | {"host": "lab"}))
        with pytest.raises(UsageError) as refused, hold_study_lock(tmp_path / "study"):
            pass
        assert refused.value.hint == f"wait for its end, or end it on lab: kill {os.getpid()}"
    assert (tmp_path / "study" / ".lock").read_bytes() == b""


def test_lock_of_a_process_that_died_is_taken_over_and_said(tmp_path, clock):
    lock = tmp_path / ".lock"
    lock.write_text(json.dumps({"pid": 7, "host": "lab", "user": "ann", "since": clock.now() - 60}))
    with hold_study_lock(tmp_path) as printed:
        assert json.loads(lock.read_bytes())["pid"] == os.getpid()
    assert printed == "the lock of process 7 of ann on lab, started 60\xa0s ago, which died, is taken over"
    lock.write_text("{")
    with hold_study_lock(tmp_path) as printed:
        assert "another process that has just started" in printed


def test_file_that_could_not_be_written_whole_keeps_what_it_had(tmp_path):
    file = tmp_path / "new" / "file"
    write_atomic(file, b"first")
    with pytest.raises(KeyError), atomic_path(file) as part:
        part.write_bytes(b"second")
        raise KeyError
    assert [p.name for p in file.parent.iterdir()] == ["file"] and file.read_bytes() == b"first"
    write_atomic(file, b"third")
    assert file.read_bytes() == b"third"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk_is_said_with_the_file_and_the_bytes_needed(tmp_path, code):
    file = tmp_path / "missing" / "file"
    with pytest.raises(DiskFullError) as outer, explain_disk_full(tmp_path), explain_disk_full(file, 5 << 20):
        raise OSError(code, "full")
    assert disk_full_message(outer.value).startswith(f"{file}: no room: 5.0\xa0MiB needed, ")
    assert "needed" not in disk_full_message(OSError(code, "full"), tmp_path)
    with pytest.raises(OSError, match="other") as other, explain_disk_full(tmp_path):
        raise OSError(errno.EACCES, "other")
    assert not isinstance(other.value, DiskFullError)
