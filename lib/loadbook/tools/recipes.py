"""Recipes by which load generators get onto a host: data in recipes.toml, one table per tool."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import NamedTuple

# arguments of each registry's program; all of them install for the user alone, without root
INSTALLER_ARGUMENTS = {
    "go": "install {package}@{version}",
    "cargo": "install {package}@{version} --locked",
    "npm": "install --global --prefix ~/.local {package}@{version}",
    "python3": "-m venv ~/.local/share/{package} && ~/.local/share/{package}/bin/pip install -q {package}=={version}"
    " && mkdir -p ~/.local/bin && ln -sf ~/.local/share/{package}/bin/{package} ~/.local/bin/",
}


class Recipe(NamedTuple):
    """How to install one load generator from a package registry.

    `installer` is the program that installs it (go, cargo, npm or python3), and `needs` is what the host must have,
    such as "Go 1.22 or newer".
    """

    installer: str
    package: str
    version: str
    needs: str

    @property
    def command(self) -> str:
        """Return the shell command that installs the tool for the user who runs it."""
        return f"{self.installer} {INSTALLER_ARGUMENTS[self.installer].format_map(self._asdict())}"

    @property
    def hint(self) -> str:
        """Return the command and what it needs, for `loadbook doctor`."""
        return f"{self.command}, with {self.needs}"


@cache
def recipes() -> dict[str, Recipe]:
    """Return the recipes by the name of the tool."""
    text = (resources.files(__package__) / "recipes.toml").read_text(encoding="utf-8")
    return {name: Recipe(**table) for name, table in tomllib.loads(text).items()}
