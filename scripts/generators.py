"""Install load generators that no distribution packages, for this user: make generators, or generators.py TOOL...

What is there already stays. Exit code 2 if the program of a registry (go, cargo, npm, python3) is missing, 3 if it
failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from loadbook.hosts.shell import search_path
from loadbook.tools.base import load_tool
from loadbook.tools.recipes import recipes


def install(name: str) -> int:
    """Install one tool if it is not there; return the exit code."""
    recipe, binary = recipes()[name], load_tool(name).binary
    if found := shutil.which(binary, path=search_path()):
        print(f"generators: {name} is there: {found}", file=sys.stderr)
        return 0
    if shutil.which(recipe.installer, path=search_path()) is None:
        print(
            f"generators: {name} needs {recipe.needs}, and there is no {recipe.installer} on this machine",
            file=sys.stderr,
        )
        return 2
    print(f"generators: {recipe.command}", file=sys.stderr)
    done = subprocess.run(["sh", "-c", recipe.command], env=os.environ | {"PATH": search_path()})
    return 3 if done.returncode else 0


def main() -> None:
    """Install the tools named on the command line, or all."""
    if unknown := set(sys.argv[1:]) - recipes().keys():
        sys.exit(f"no recipe for {', '.join(sorted(unknown))}: choose from {', '.join(recipes())}")
    sys.exit(max(install(name) for name in sys.argv[1:] or recipes()))


if __name__ == "__main__":
    main()
