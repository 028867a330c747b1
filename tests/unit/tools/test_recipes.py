"""Recipes: each is that of a tool, whose hint is its command, with a fixed version."""

from __future__ import annotations

import re

import pytest

from loadbook.tools.base import load_tool
from loadbook.tools.recipes import INSTALLER_ARGUMENTS, recipes


@pytest.mark.parametrize("name", recipes())
def test_recipe_is_the_hint_of_its_tool(name: str) -> None:
    recipe = recipes()[name]
    assert load_tool(name).install_hint == f"{recipe.command}, with {recipe.needs}"
    assert recipe.installer in INSTALLER_ARGUMENTS and re.fullmatch(r"v?\d+\.\d+\.\d+", recipe.version)
    assert recipe.command.startswith(f"{recipe.installer} ") and recipe.version in recipe.command
    assert "{" not in recipe.command and "sudo" not in recipe.command
