"""One run per machine, whoever and from wherever; the death of its owner frees it, when its jobs have ended."""

from __future__ import annotations

import os

from loadbook.hosts.jobs import (
    process_start_ticks,
)


def test_process_identity_includes_its_start_time():
    assert process_start_ticks(os.getpid()) and process_start_ticks(os.getpid()) == process_start_ticks(os.getpid())
    assert process_start_ticks(2**22 + 1) == ""
