"""What comes as sources is built once per program and host: there, or here and carried; and else says why not."""

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from built_service import made
from loadbook.hosts.host import CommandResult
from loadbook.services import Instance, InstanceContext, render, version
from loadbook.services.build import BuildError, build, build_command, program_digest
from local_host import LocalHost
from waiting import PATIENCE_S

MACHINE = os.uname().machine


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that this machine has, and the hosts of these tests unless they are told not to."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "maker").symlink_to(shutil.which("sh") or "/bin/sh")
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    return bin_folder


def times_built(tmp_path: Path) -> int:
    count = tmp_path / "count"
    return len(count.read_text().splitlines()) if count.exists() else 0


def poor(tmp_path: Path) -> LocalHost:
    """A host that has no maker."""
    path = os.environ["PATH"].split(":", 1)[1]
    return LocalHost(tmp_path / "poor", {**os.environ, "PATH": path})


def test_build_runs_once_per_host(here: LocalHost, tmp_path: Path, maker: Path) -> None:
    spec = made(tmp_path)
    first, again = build(here, spec), build(here, spec)
    assert first == again and times_built(tmp_path) == 1
    assert Path(first.folder, "out/index.html").read_text() == " plain page\n"
    assert first.folder == f"{here.workdir}/built/made-{program_digest(spec)}"
    assert first.version == f"{program_digest(spec)} (maker 1.2)" == version(here, spec)
    assert list(Path(first.folder).parent.iterdir()) == [Path(first.folder)]


def test_locally_built_program_is_copied_to_a_host_without_the_compiler(tmp_path: Path, maker: Path) -> None:
    host, spec = poor(tmp_path), made(tmp_path)
    built = build(host, spec)
    assert built == build(host, spec) and times_built(tmp_path) == 1
    assert Path(built.folder, "out/index.html").read_text() == " plain page\n"
    assert list(Path(built.folder).parent.iterdir()) == [Path(built.folder)]


class Replayed(LocalHost):
    """A host on which nothing happens: it says again what a real one said."""

    live = False

    def __init__(self, workdir: Path, printed: list[CommandResult]) -> None:
        super().__init__(workdir)
        self.printed = printed

    def script(self, text, args=(), *, timeout_s, check=False):
        return self.printed.pop(0)


def test_build_in_a_replay_uses_the_recorded_result(here: LocalHost, tmp_path: Path, maker: Path) -> None:
    spec, printed = made(tmp_path), []
    ask = here.script
    here.script = lambda *args, **options: printed.append(ask(*args, **options)) or printed[-1]  # type: ignore[method-assign]
    built = build(here, spec)
    replayed = build(Replayed(Path(here.workdir), [printed[0], printed[-1]]), spec)
    assert replayed == built and times_built(tmp_path) == 1


def test_concurrent_builds_leave_one_program(here: LocalHost, tmp_path: Path, maker: Path) -> None:
    spec, found = made(tmp_path), []
    threads = [threading.Thread(target=lambda: found.append(build(here, spec))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1
    assert Path(found[0].folder, "out/index.html").exists()


def test_changed_sources_change_program_and_configuration_id(tmp_path: Path, here: LocalHost) -> None:
    place = InstanceContext.for_instance(here, "a", 80)
    one, other = made(tmp_path), made(tmp_path, env={"FLAVOUR": "sweet"})
    assert program_digest(one) != program_digest(other)
    assert render(one, {}, place).config_sha256 != render(other, {}, place).config_sha256
    before = program_digest(one), render(one, {}, place)
    (one.folder / "parts" / "page.txt").write_text("another page")
    assert program_digest(one) != before[0] and render(one, {}, place).config_sha256 != before[1].config_sha256
    elsewhere = replace(place, dir="/elsewhere", extra={"built": "/elsewhere/built"})
    assert render(one, {}, place).config_sha256 == render(one, {}, elsewhere).config_sha256


def test_failed_build_names_host_command_reason_and_remedies(here: LocalHost, tmp_path: Path, maker: Path) -> None:
    with pytest.raises(BuildError) as caught:
        build(here, made(tmp_path, "echo no flour >&2; exit 3\n"))
    text = caught.value.message
    assert text.startswith("host here: made could not be built\n  on here: `maker recipe.sh ` ended with exit code 3")
    assert text.count("no flour") == 2 and "\n  here: `maker" in text
    assert caught.value.hint == "on here or here: apt-get install maker; it is built where maker can be had"
    assert list(Path(here.workdir, "built").iterdir()) == []


def test_build_without_a_result_is_an_error(here: LocalHost, tmp_path: Path, maker: Path) -> None:
    with pytest.raises(BuildError, match=r"(?s)on here: .*made no out/index.html.*here: .*made no out/index.html"):
        build(here, made(tmp_path, "true\n"))


def test_build_beyond_its_time_limit_is_ended_with_its_children(here: LocalHost, tmp_path: Path, maker: Path) -> None:
    spec = made(tmp_path, 'sleep 60 & echo $! >>"$COUNT"; wait\n', timeout_s=0.3)
    with pytest.raises(BuildError, match=r"(?s)on here: .*did not end within 0.3 s.*here: .*did not end within 0.3 s"):
        build(here, spec)
    last = (tmp_path / "count").read_text().split()[-1]
    state = Path(f"/proc/{last}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_missing_compiler_error_names_host_and_controller(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"(?s)on here: no maker\n  here: no maker") as caught:
        build(LocalHost(tmp_path / "poor"), made(tmp_path))
    assert "apt-get install maker" in (caught.value.hint or "")


class Foreign(LocalHost):
    """A host of another kind of machine."""

    machine = "pdp11"

    def script(self, text, args=(), *, timeout_s, check=False):
        return super().script(f"uname() {{ echo {self.machine}; }}\n{text}", args, timeout_s=timeout_s, check=check)


def test_build_cross_compiles_where_the_compiler_can(tmp_path: Path, maker: Path) -> None:
    host = Foreign(tmp_path / "far", poor(tmp_path).env)
    built = build(host, made(tmp_path))
    assert Path(built.folder, "out/index.html").read_text() == "PDP-11 plain page\n"
    assert build_command(made(tmp_path), "pdp11")[1] == ("maker", "recipe.sh", "PDP-11")


def test_build_is_refused_if_the_compiler_cannot_build_for_the_architecture(tmp_path: Path, maker: Path) -> None:
    host = Foreign(tmp_path / "far", poor(tmp_path).env)
    host.machine = "vax"
    with pytest.raises(BuildError, match="here: nothing can be built for a machine of the kind 'vax'"):
        build(host, made(tmp_path))
    assert build(host, made(tmp_path, portable=True)).folder


def test_build_is_repeated_when_the_machine_of_a_host_changes(tmp_path: Path, maker: Path) -> None:
    host = Foreign(tmp_path / "far", poor(tmp_path).env)
    build(host, made(tmp_path))
    host.machine = MACHINE
    assert Path(build(host, made(tmp_path)).folder, "out/index.html").read_text() == " plain page\n"
    assert times_built(tmp_path) == 2


def test_configuration_check_of_a_service_builds_its_program(
    tmp_path: Path, here: LocalHost, maker: Path, port: int
) -> None:
    spec = made(tmp_path)
    web = Instance(
        here, spec, render(spec, {}, InstanceContext.for_instance(here, "t1", port)), name="t1", lease_s=30.0
    )
    web.check()
    try:
        web.start()
        assert web.ready(here).status == 200
        assert here.http_get("127.0.0.1", port, "/index.html", timeout_s=PATIENCE_S).body == b" plain page\n"
    finally:
        web.stop()
    assert Path(here.workdir, "built").exists()
