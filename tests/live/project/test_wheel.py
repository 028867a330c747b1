"""The wheel works outside of any clone: from an empty environment and an empty folder to a report."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = (
    "lib",
    "notebooks",
    "studies",
    "data/example",
    "data/example-sizes",
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "docs",
    "LICENSE",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment of its own with the wheel in it; the dependencies are those of this one, nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    clone, environment = folder / "clone", folder / "environment"
    for name in SOURCES:  # a copy: a build leaves build/ and *.egg-info beside its sources
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, clone / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, clone / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps"]
    subprocess.run([*pip, "wheel", *offline, "--no-build-isolation", "-w", folder, clone], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "--python", environment / "bin" / "python", "install", *offline, wheel], check=True)
    shutil.rmtree(clone)
    (packages,) = environment.glob("lib/python*/site-packages")
    # files *.pth of a folder that is added so are not read: the editable loadbook of this environment stays unseen
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    (environment / "share").symlink_to(Path(sys.prefix) / "share")  # kernels, templates of nbconvert
    return environment / "bin" / "loadbook"


@pytest.fixture(scope="module")
def call(installed, tmp_path_factory):
    """Call the installed program in an empty folder; returns the finished process."""
    folder = tmp_path_factory.mktemp("empty")
    kept = {key: value for key, value in os.environ.items() if key not in ("LOADBOOK_HOME", "PYTHONPATH")}

    def run(*words, check=0, cwd="."):
        done = subprocess.run(
            [installed, *words], cwd=folder / cwd, env=kept, capture_output=True, text=True, check=False
        )
        assert done.returncode == check, done.stdout + done.stderr
        return done

    run.folder = folder  # type: ignore[attr-defined]
    return run


def test_command_outside_a_project_suggests_loadbook_init(call, tmp_path_factory):
    done = call("studies", cwd=tmp_path_factory.mktemp("elsewhere"), check=2)
    assert "loadbook init makes one here" in done.stderr


def test_installed_wheel_goes_from_init_to_a_report(call):
    assert "init" in call("--help").stdout
    assert call("init").stdout.startswith(f"project {call.folder}")
    assert "nginx-directives" in call("studies").stdout
    assert "trials" in call("plan", "nginx-directives-smoke").stdout
    done = call("report", "example")
    page = call.folder / "reports" / "example.html"
    assert f"report: {page}" in done.stdout and page.stat().st_size > 100_000
    assert (call.folder / "reports" / "index.html").is_file()


def test_installed_wheel_has_the_documentation_as_a_site(call):
    page = Path(call("docs").stdout.strip().removeprefix("file://"))
    assert page.name == "index.html" and (page.parent / "docs" / "statistics.html").is_file()
    assert (page.parent / "searchindex.js").stat().st_size > 10_000


def test_init_command_refuses_to_overwrite_files(call):
    (call.folder / "sub" / "studies").mkdir(parents=True, exist_ok=True)
    done = call("init", "sub", check=2)
    assert "already has studies" in done.stderr
    assert [path.name for path in (call.folder / "sub").iterdir()] == ["studies"]


def test_hosts_file_of_a_new_project_is_readable(tmp_path):
    from loadbook.cli.studies import HOSTS
    from loadbook.hosts.inventory import read_hosts

    (tmp_path / "hosts.toml").write_text(HOSTS)
    assert read_hosts(tmp_path / "hosts.toml").with_role("web") == ["web1"]
