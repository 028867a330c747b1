"""Every package's docstring lists its modules, in an order in which each imports only modules before it."""

import ast
import re
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[3] / "lib"
PACKAGES = sorted(path.parent for path in (LIBRARY / "loadbook").glob("*/**/__init__.py"))
ENTRY = re.compile(r"^- `(\w+)`: \S", re.MULTILINE)


def listed_modules(package: Path) -> list[str]:
    """Return the modules that a package's docstring names, in its order."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    return ENTRY.findall(ast.get_docstring(tree) or "")


def modules_of(package: Path) -> dict[str, list[Path]]:
    """Return name -> files, of the modules and the subpackages with Python in a package."""
    modules = {path.stem: [path] for path in package.glob("*.py") if path.name != "__init__.py"}
    folders = {path.name: sorted(path.rglob("*.py")) for path in package.iterdir() if path.is_dir()}
    return modules | {name: files for name, files in folders.items() if files}


def imported_siblings(files: list[Path], package: Path) -> set[str]:
    """Return the modules of a package that files import, inside functions and for type checkers, too."""
    prefix = ".".join(package.relative_to(LIBRARY).parts)
    names: set[str] = set()
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix(f"{prefix}.").split(".")[0] for name in names if name.startswith(f"{prefix}.")}


def package_name(package: Path) -> str:
    return str(package.relative_to(LIBRARY / "loadbook"))


@pytest.mark.parametrize("package", PACKAGES, ids=package_name)
def test_package_docstring_lists_modules_in_import_order(package: Path) -> None:
    listed, modules = listed_modules(package), modules_of(package)
    assert sorted(listed) == sorted(modules)
    for place, name in enumerate(listed):
        later = imported_siblings(modules[name], package) & set(listed[place + 1 :])
        assert not later, f"{name} imports {sorted(later)}, which are listed after it"
