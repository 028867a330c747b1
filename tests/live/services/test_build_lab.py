"""The same over SSH: what only this machine can build is carried to a host, and runs there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from loadbook.hosts.host import Host
from loadbook.services import Instance, InstanceContext, load_service, render, version
from loadbook.services.build import build
from shared_builds import needs_go
from waiting import PATIENCE_S

pytestmark = needs_go
Connect = Callable[..., Host]


def carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make Go a program that only this machine has, under another name."""
    (tmp_path / "bin").mkdir()
    go = next(Path(folder, "go") for folder in os.environ["PATH"].split(":") if Path(folder, "go").exists())
    (tmp_path / "bin" / "our-go").symlink_to(go)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("GOROOT", str(go.resolve().parents[1]))
    own = tmp_path / "services"
    own.mkdir()
    (own / "go-app").symlink_to(load_service("go-app").folder)
    return own


def test_built_program_is_copied_to_a_host_and_verified(
    connect_lab: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load_service("go-app", [carried(tmp_path, monkeypatch)])
    assert spec.build is not None
    recipe = {"needs": ("our-go",), "argv": ("our-go", *spec.build.argv[1:])}
    spec = spec.model_copy(update={"build": spec.build.model_copy(update=recipe)})
    driver, host = connect_lab("driver"), connect_lab("web")
    assert host.run(["our-go", "version"], timeout_s=20).rc == 127
    printed = version(host, spec)
    assert build(host, spec).version == printed
    place = InstanceContext.for_instance(host, "carried", 18080, {"node": "web", "cpus": [0]})
    app = Instance(host, spec, render(spec, {"page": "node", "page_bytes": 20}, place), name="carried", lease_s=60.0)
    try:
        app.check()
        app.start()
        app.ready(driver)
        assert app.prove(driver).live
        page = driver.http_get(host.address, 18080, "/", timeout_s=PATIENCE_S)
        assert page.body.startswith(b"node web\n") and len(page.body) == 20
        assert app.counters(driver)["requests"] == 1
    finally:
        app.stop()
    assert host.exists(f"{host.workdir}/built/{spec.name}-{printed[:12]}/go-app")
