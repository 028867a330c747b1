import contextlib
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_host import LocalHost
from shared_builds import Running, runner, share_built


@pytest.fixture
def here() -> Iterator[LocalHost]:
    # the folder of a test may have a longer path than the 107 bytes that a unix socket's name can have
    with tempfile.TemporaryDirectory(prefix="lb-", ignore_cleanup_errors=True) as folder:
        host = LocalHost(Path(folder) / "work")
        yield host
        host.close()


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that keeps what is built for all tests of a session."""
    return tmp_path_factory.mktemp("built")


@pytest.fixture
def running(here: LocalHost, built: Path) -> Iterator[Running]:
    """`running("go-app", extra, **variables)` returns a proven Instance; stopped after the test."""
    share_built(here, built)
    with runner(here) as start:
        yield start


@pytest.fixture
def free_ports() -> list[int]:
    """Ports of which the side ports are free, too."""
    found: list[int] = []
    for port in range(18_400, 19_400):
        with socket.socket() as probe, socket.socket() as side, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            side.bind(("127.0.0.1", port + 10_000))
            found.append(port)
        if len(found) == 3:
            return found
    raise OSError("no ports are free")
