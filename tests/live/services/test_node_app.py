"""The node application: express, a loop and a store, in as many processes as asked, counted together."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadbook.services import Instance, ServiceError, load_service, version
from loadbook.services.build import BuildError, build
from local_host import LocalHost
from ports import kept_port
from shared_builds import Running, backend, needs_node
from waiting import PATIENCE_S, wait_until

pytestmark = needs_node
APP = load_service("node-app")
NO_REGISTRY = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT")


@pytest.fixture(autouse=True)
def installed(here: LocalHost, running: Running) -> None:
    try:
        build(here, APP)
    except BuildError as error:
        if any(word in error.message for word in NO_REGISTRY):
            pytest.skip(f"npm's registry cannot be reached: {error.message}")
        raise


@pytest.fixture
def store() -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not there: apt-get install redis-server")
    port = kept_port()
    argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    yield port, process
    process.kill()
    process.wait()


def ask(here: LocalHost, app: Instance, path: str = "/") -> tuple[int, bytes]:
    answer = here.http_get(app.address, app.port, path, timeout_s=PATIENCE_S)
    return answer.status, answer.body


def test_node_app_adds_up_the_counters_of_its_worker_processes(here: LocalHost, running: Running) -> None:
    app = running("node-app", page_bytes=20)
    assert len(app.pids()) == 3 and app.prove(here).workers == 2
    before = app.counters(here)
    assert {ask(here, app, f"/{number}") for number in range(7)} == {(200, b"hello, world\nhello, ")}
    after = app.counters(here)
    assert {name: after[name] - before[name] for name in after} == {"requests": 7.0, "connections": 7.0}
    assert "(npm " in version(here, APP)


def test_node_app_writes_a_value_per_request(
    here: LocalHost, running: Running, store: tuple[int, subprocess.Popen[bytes]]
) -> None:
    app = running("node-app", {"backends": [backend(store[0])]}, processes=1)
    assert [ask(here, app)[0] for _ in range(3)] == [200] * 3
    done = subprocess.run(["redis-cli", "-p", str(store[0]), "info", "commandstats"], capture_output=True, check=True)
    assert b"cmdstat_set:calls=3," in done.stdout and b"cmdstat_get:calls=3," in done.stdout
    store[1].kill()
    store[1].wait()
    status, words = ask(here, app)
    assert status == 502 and words
    assert b"node-app: store: " in app.log()


def test_node_app_ends_when_a_worker_process_dies(here: LocalHost, running: Running) -> None:
    app = running("node-app")
    os.kill(app.pids()[-1], signal.SIGKILL)
    wait_until(lambda: not here.state(app.name).running)
    with pytest.raises(ServiceError, match=r"node-app ended with exit code 1: .*worker 2 ended: SIGKILL"):
        app.ready(here)


def test_node_app_build_names_an_unreachable_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{kept_port()}/")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    once = APP.build.model_copy(update={"env": {"npm_config_fetch_retries": "0"}}) if APP.build else None
    with pytest.raises(BuildError, match=r"(?s)on here: `npm ci.*ECONNREFUSED.*\n  here: `npm ci.*ECONNREFUSED"):
        build(LocalHost(tmp_path / "alone"), APP.model_copy(update={"build": once}))
