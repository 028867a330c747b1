"""CPU time of services: processes forked later, ended children and ended threads count; real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook.core.errors import CommandError
from loadbook.hosts.host import CommandResult
from loadbook.services.cpu_time import read_cpu_time
from local_host import LocalHost


def test_unexpected_output_of_the_host_is_an_error_with_its_text(tmp_path: Path, monkeypatch) -> None:
    host = LocalHost(tmp_path)
    monkeypatch.setattr(host, "script", lambda *_, **__: CommandResult(0, b"boot pid\nnot a number\n", b""))
    with pytest.raises(CommandError, match="not a number"):
        read_cpu_time(host, [1])
