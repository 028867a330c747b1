"""pyproject.toml is the single source of dependencies: environment.yml and the locks agree with it."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[3]
CONDA_NAMES = {"matplotlib-base": "matplotlib", "jupyter_server": "jupyter-server"}
# the security floors of 2026: a lock below one of them must not be committed
SECURITY_FLOORS = {
    "jupyter-server": "2.20.0", "jupyterlab": "4.6.2", "nbconvert": "7.17.1",
    "jinja2": "3.1.6", "pyarrow": "14.0.1", "paramiko": "5",
}  # fmt: skip


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(extra: str | None = None) -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = project["dependencies"] + (project["optional-dependencies"][extra] if extra else [])
    return {normal(r.name): r for r in map(Requirement, listed)}


def conda() -> dict[str, Requirement]:
    lines = (ROOT / "environment.yml").read_text().split("dependencies:")[1].splitlines()
    items = [line.strip().removeprefix("- ") for line in lines if line.strip()]
    found = (Requirement(re.sub(r"\s+", "", item)) for item in items)
    return {normal(CONDA_NAMES.get(r.name, r.name)): r for r in found if r.name not in ("python", "pip")}


def pins(lock: str) -> dict[str, list[Version]]:
    found: dict[str, list[Version]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", (ROOT / lock).read_text(), re.MULTILINE):
        found.setdefault(normal(name), []).append(Version(version))
    return found


def test_conda_environment_has_the_packages_and_version_bounds_of_pyproject() -> None:
    assert {n: str(r.specifier) for n, r in conda().items()} == {n: str(r.specifier) for n, r in declared().items()}


@pytest.mark.parametrize(
    ("lock", "extra"),
    [
        ("requirements.lock", None),
        ("requirements-dev.lock", "dev"),
        ("requirements-dev.lock", "dask"),
        ("requirements-dev.lock", "explore"),
    ],
)
def test_lock_files_have_every_dependency_within_its_version_bounds(lock: str, extra: str | None) -> None:
    pinned = pins(lock)
    for name, requirement in declared(extra).items():
        assert name in pinned, f"{lock} lacks {name}: run `make lock`"
        assert all(requirement.specifier.contains(v, prereleases=True) for v in pinned[name]), f"{name}: `make lock`"


def test_development_lock_file_includes_the_runtime_lock_file() -> None:
    runtime, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert {n: dev.get(n) for n in runtime} == runtime


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_lock_files_have_hashes_and_no_package_index(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert not re.search(r"https?://|--index-url|--extra-index|--find-links|--trusted-host", text)
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    assert all("--hash=sha256:" in b for b in blocks if "==" in b.split("\n")[0])


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_lock_files_have_at_least_the_versions_with_security_fixes(lock: str) -> None:
    for name, floor in SECURITY_FLOORS.items():
        assert all(v >= Version(floor) for v in pins(lock)[name]), name


def test_dependency_bounds_are_declared_and_explained() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for name, floor in SECURITY_FLOORS.items():
        least = next(Version(s.version) for s in declared()[name].specifier if s.operator == ">=")
        assert least >= Version(floor), f"pyproject.toml lets {name} {least} in"
        assert name in page
    assert not any(version < Version(floor) for name, floor in SECURITY_FLOORS.items() for version in _installed(name))


def _installed(name: str) -> list[Version]:
    return [Version(metadata.version(name))]
