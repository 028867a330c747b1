import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from localhost import LocalHost


@pytest.fixture
def here(tmp_path: Path) -> Iterator[LocalHost]:
    host = LocalHost(tmp_path / "work")
    yield host
    host.close()


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
