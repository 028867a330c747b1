"""redis with its keys, proven by a command on its host; real processes."""

import socket
import subprocess

import pytest

from loadbook.services import ServiceError
from local_host import LocalHost
from running_services import running


def ask(port: int, *words: str) -> str:
    return subprocess.run(["redis-cli", "-p", str(port), *words], capture_output=True, check=True, text=True).stdout


def test_redis_is_filled_with_keys_and_proves_its_configuration(here: LocalHost, free_ports: list[int]) -> None:
    with running(here, "redis", free_ports[0], keys=5001, io_threads=2) as store:
        proof = store.prove(here)
        assert proof.live and store.rendered.config_id in proof.evidence
        assert ask(free_ports[0], "dbsize").strip() == "5001"
        assert ask(free_ports[0], "get", "key:5000").strip() == "key:5000"
        before = store.counters(here)
        ask(free_ports[0], "ping")
        after = store.counters(here)
        assert after["requests"] - before["requests"] == 2
        assert after["connections"] - before["connections"] == 2


def test_redis_detects_another_redis_on_the_port(here: LocalHost, free_ports: list[int]) -> None:
    with running(here, "redis", free_ports[0]), running(here, "redis", free_ports[0], appendonly="on") as second:
        assert second.prove(here).live is False


def test_redis_error_after_exit_is_read_from_stdout(here: LocalHost, free_ports: list[int]) -> None:
    with socket.socket() as squatter, pytest.raises(ServiceError, match="Address already in use"):
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", free_ports[0]))
        squatter.listen()
        with running(here, "redis", free_ports[0]):
            pass


def test_redis_runs_with_a_user_configuration_file(here: LocalHost, free_ports: list[int]) -> None:
    with running(here, "redis", free_ports[0], main=b"bind {{ address }}\nport {{ port }}\n") as store:
        proof = store.prove(here)
        assert proof.live is None and f"process {store.pids()[0]} was started with it" in proof.evidence
        assert store.counters(here)["connections"] > 0
