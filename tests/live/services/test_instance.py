"""One module runs any service: real processes on this machine, started, asked, proven and stopped."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from loadbook.core.errors import HostError, UnreachableError
from loadbook.hosts.host import Job
from loadbook.services import Instance, InstanceContext, ServiceError, ServiceSpec, load_service, render, version
from loadbook.services.instance import check_port
from local_host import LocalHost
from toy_service import toy_service
from waiting import PATIENCE_S, wait_until

NGINX = load_service("nginx")


@pytest.fixture
def toy(tmp_path: Path) -> ServiceSpec:
    return toy_service(tmp_path)


def instance(
    host: LocalHost, spec: ServiceSpec, port: int, name: str = "t0001-a1-web", **values: str | int
) -> Instance:
    return Instance(
        host, spec, render(spec, values, InstanceContext.for_instance(host, name, port)), name=name, lease_s=30.0
    )


def wait_for_pids(web: Instance, count: int) -> list[int]:
    """The first worker may answer before the last one is forked."""
    wait_until(lambda: len(web.pids()) >= count)
    pids = web.pids()
    assert len(pids) == count
    return pids


def run_through(web: Instance, host: LocalHost) -> None:
    web.check()
    leader = web.start()
    try:
        assert web.ready(host).status == 200
        proof = web.prove(host)
        assert proof.live, proof.evidence
        assert web.rendered.config_id in proof.evidence
        assert proof.pids and leader in proof.pids
    finally:
        web.stop()
    assert not any(Path(f"/proc/{pid}").exists() for pid in proof.pids)
    assert not host.exists(web.rendered.context.dir)
    web.stop()


def test_nginx_starts_proves_its_configuration_and_cleans_up(here: LocalHost, port: int) -> None:
    web = instance(here, NGINX, port, worker_processes=2, tcp_nopush="on", sendfile="on")
    run_through(web, here)
    assert b"tcp_nopush on;" in web.effective_config
    assert web.rendered.config_id.encode() in web.effective_config


def test_service_defined_by_files_without_python_runs(here: LocalHost, port: int, toy: ServiceSpec) -> None:
    run_through(instance(here, toy, port, greeting="goodbye"), here)
    assert version(here, toy).startswith("3.")


def test_nginx_pids_are_those_of_this_instance_only(here: LocalHost, port: int) -> None:
    web = instance(here, NGINX, port, worker_processes=3)
    assert web.pids() == []
    web.check()
    leader = web.start()
    web.ready(here)
    pids = wait_for_pids(web, 4)
    assert pids[0] == leader
    other = instance(here, NGINX, port, name="other")
    assert other.pids() == []
    web.stop()
    assert web.pids() == []


def test_page_has_the_requested_size(here: LocalHost, port: int) -> None:
    web = instance(here, NGINX, port, page_bytes=70_000)
    web.check()
    web.start()
    try:
        web.ready(here)
        assert len(here.http_get("127.0.0.1", port, "/index.html", timeout_s=PATIENCE_S).body) == 70_000
    finally:
        web.stop()


def test_service_with_invalid_configuration_is_not_started(here: LocalHost, port: int, tmp_path: Path) -> None:
    folder = tmp_path / "services" / "nginx"
    folder.mkdir(parents=True)
    for name in ("service.toml", "index.html.j2", "nginx.conf.j2"):
        (folder / name).write_text((NGINX.folder / name).read_text())
    (folder / "nginx.conf.j2").write_text((NGINX.folder / "nginx.conf.j2").read_text() + "nonsense on;\n")
    web = instance(here, load_service("nginx", [tmp_path / "services"]), port)
    with pytest.raises(
        ServiceError, match=r"(?s)host here: nginx refuses its configuration.*unknown directive .nonsense"
    ):
        web.check()
    web.stop()
    assert not here.jobs


def test_service_port_in_use_is_detected(here: LocalHost, port: int) -> None:
    old = instance(here, NGINX, port, name="old", tcp_nopush="on")
    old.check()
    old.start()
    old.ready(here)
    new = instance(here, NGINX, port, name="new", tcp_nopush="on")
    try:
        new.check()
        new.start()
        new.ready(here)  # the old server answers in its place: that alone proves nothing
        proof = new.prove(here)
        assert proof.live is False
        assert old.rendered.config_id in proof.evidence and new.rendered.config_id in proof.evidence
        assert old.rendered.config_sha256 == new.rendered.config_sha256
    finally:
        new.stop()
        assert old.prove(here).live
        old.stop()


def test_another_server_on_the_port_is_detected(here: LocalHost, port: int, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")
    argv = ["python3", "-m", "http.server", "-b", "127.0.0.1", "-d", str(tmp_path), str(port)]
    other = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    web = instance(here, NGINX, port)
    try:
        wait_until(lambda: check_port(here, "127.0.0.1", port).succeeded)
        web.check()
        web.start()
        with pytest.raises(ServiceError, match="Address already in use"):
            web.ready(here)
        assert "answered 404" in web.prove(here).evidence
    finally:
        web.stop()
        other.terminate()
        other.wait()


def test_error_of_a_service_that_exits_at_once_contains_its_output(
    here: LocalHost, tmp_path: Path, port: int, toy: ServiceSpec
) -> None:
    web = instance(here, toy, port, option="-Z")
    web.check()
    web.start()
    with pytest.raises(ServiceError, match=r"(?s)toy ended with exit code 2: .*[Uu]nknown option"):
        web.ready(here)
    assert web.prove(here).live is False
    web.stop()


def test_service_that_never_answers_fails_within_the_time_limit(here: LocalHost, toy: ServiceSpec) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        limited = toy.model_copy(update={"ready": toy.ready.model_copy(update={"timeout_s": 0.2})})
        web = instance(here, limited, silent.getsockname()[1])
        here.start(Job(web.name, (("sleep", "60"),), 60.0))
        with pytest.raises(ServiceError, match=r"is not as awaited within 0\.2 s"):
            web.ready(here)


def test_missing_binary_error_names_the_package(here: LocalHost, port: int, toy: ServiceSpec) -> None:
    argv = ("/nonexistent/toy", "-V")
    gone = toy.model_copy(update={"version": toy.version.model_copy(update={"argv": argv})})
    with pytest.raises(ServiceError) as caught:
        version(here, gone)
    assert caught.value.hint == "apt-get install python3"


def test_nginx_version_is_read(here: LocalHost) -> None:
    assert version(here, NGINX).count(".") == 2


def test_service_stop_cleans_up_after_a_failed_start(here: LocalHost, port: int) -> None:
    web = instance(here, NGINX, port)
    web.check()
    here.start = lambda job: (_ for _ in ()).throw(UnreachableError("here", "gone"))  # type: ignore[method-assign]
    with pytest.raises(HostError):
        web.start()
    web.stop()
    assert not here.exists(web.rendered.context.dir)


def test_nginx_runs_as_an_ordinary_user(here: LocalHost, port: int) -> None:
    """As root the workers must still be able to read a private folder."""
    Path(here.workdir).mkdir(mode=0o700)
    web = instance(here, NGINX, port)
    web.check()
    web.start()
    try:
        web.ready(here)
        assert here.http_get("127.0.0.1", port, "/index.html", timeout_s=PATIENCE_S).body == b"hello"
        assert os.getpid() not in web.pids()
    finally:
        web.stop()
