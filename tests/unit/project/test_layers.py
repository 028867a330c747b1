"""Layers of docs/architecture.md: imports run only downwards; libraries are imported by the packages that need them."""

import ast
import functools
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "lib" / "loadbook"
LAYERS = (
    ("core",),
    ("study",),
    ("store",),
    ("request_logs", "host_metrics"),
    ("hosts", "tools"),
    ("services", "stats"),
    ("validity",),
    ("ingestion", "calibration"),
    ("execution",),
    ("imported",),
    ("report",),
    ("analyses",),
    ("batch",),
    ("notebook", "cli"),
)
# first part of the name of a module in a mode's folder -> the package on whose layer it lies
MODE_FACETS = {
    "spec": "study", "replay": "hosts", "services": "services", "stats": "stats", "rules": "validity",
    "read": "ingestion", "run": "execution", "page": "report",
}  # fmt: skip
LAYER_NUMBERS = {package: level for level, packages in enumerate(LAYERS) for package in packages}
# library -> the folders (or files) that may import it
ALLOWED_IMPORTERS = {
    "fabric": ("hosts/",),
    "paramiko": ("hosts/",),
    "papermill": ("report/engine.py", "report/kernel.py"),
    "nbconvert": ("report/html.py",),
    "scipy": ("stats/", "analyses/", "modes/"),
    "statsmodels": ("stats/", "analyses/"),
    "matplotlib": ("report/", "analyses/"),
    "seaborn": ("report/", "analyses/"),
    "rich": ("cli/",),
    "ipywidgets": ("notebook/studies.py",),
    "distributed": ("ingestion/workers.py",),
}
MODULES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def package_of(name: str) -> str | None:
    """Return the package on whose layer a module lies; modules of modes are named by it. None: not one of loadbook."""
    parts = name.split(".")
    if parts[0] != "loadbook" or len(parts) == 1:
        return None
    if parts[1] != "modes":
        return parts[1]
    return MODE_FACETS[parts[3].split("_")[0]] if len(parts) > 3 and parts[3] in _modules_of_modes() else "study"


@functools.cache
def _modules_of_modes() -> frozenset[str]:
    return frozenset(path.stem for path in (PACKAGE / "modes").glob("*/*.py") if path.stem not in ("__init__", "mode"))


def layer_of(name: str) -> int | None:
    package = package_of(name)
    return LAYER_NUMBERS.get(package) if package else None


def test_packages_import_only_packages_of_lower_layers() -> None:
    wrong = []
    for path in MODULES:
        module = ".".join(("loadbook", *path.relative_to(PACKAGE).with_suffix("").parts))
        if module in ("loadbook.__init__", "loadbook.__main__", "loadbook.modes.base") or path.name == "mode.py":
            continue  # a mode names what is in its folder, and its interface the types of all layers
        folder = package_of(module)
        assert folder in LAYER_NUMBERS, f"{folder} has no layer: add it to docs/architecture.md and here"
        for name in imports(path):
            layer = layer_of(name)
            if layer is not None and package_of(name) != folder and layer >= LAYER_NUMBERS[folder]:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {name} from its own layer or above")
    assert not wrong, "\n".join(wrong)


ANALYSES = sorted(path for path in (PACKAGE / "analyses").iterdir() if path.stem[:1] != "_")


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda p: p.stem)
def test_analyses_import_no_other_analysis_except_the_base_page(analysis: Path) -> None:
    allowed = ("loadbook.analyses.effects.", f"loadbook.analyses.{analysis.stem}.")[analysis.stem == "effects" :]
    for path in [analysis] if analysis.is_file() else analysis.glob("*.py"):
        names = {n for n in imports(path) if n.startswith("loadbook.analyses.") and not n.endswith(".SECTIONS")}
        others = {n for n in names if not f"{n}.".startswith(allowed)}
        assert not others, f"{path.relative_to(PACKAGE)} imports {sorted(others)}"


def test_lower_layers_do_not_import_analyses() -> None:
    """Deleting an analysis is deleting a folder and its lines in registries of names."""
    users = {path.relative_to(PACKAGE).parts[0] for path in MODULES if any("analyses" in n for n in imports(path))}
    assert users <= {"analyses", "batch", "notebook", "cli", "__init__.py"}


@pytest.mark.parametrize("library", ALLOWED_IMPORTERS)
def test_each_library_is_imported_by_its_allowed_packages_only(library: str) -> None:
    users = [
        str(p.relative_to(PACKAGE))
        for p in MODULES
        if any(n == library or n.startswith(library + ".") for n in imports(p))
    ]
    assert users, f"nothing imports {library}: is it still needed?"
    strangers = [u for u in users if not u.startswith(ALLOWED_IMPORTERS[library])]
    assert not strangers, f"only {ALLOWED_IMPORTERS[library]} may import {library}"


def test_nginx_is_named_only_in_its_service_folder() -> None:
    """Services are data: no line of Python outside services/nginx (and none in it) knows nginx."""
    strangers = [
        f"{p.relative_to(PACKAGE)}:{n}"
        for p in MODULES
        for n, line in enumerate(p.read_text(encoding="utf-8").splitlines(), 1)
        if "nginx" in line.split("#")[0].lower() and not _in_docstring(p, n)
    ]
    assert not strangers


def _in_docstring(path: Path, line: int) -> bool:
    spans = [
        (node.value.lineno, node.value.end_lineno or node.value.lineno)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return any(start <= line <= end for start, end in spans)
