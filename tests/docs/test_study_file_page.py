"""docs/study-file.md has every key of a study, a role and a factor."""

from pathlib import Path
from typing import get_args

from loadbook.study.model import Study
from loadbook.study.treatments import FactorTarget, Grid, Role, Treatment

PAGE = (Path(__file__).parents[2] / "docs" / "study-file.md").read_text()
READ_ONLY = {"schema_version", "config_text"}


def test_study_file_page_lists_every_key_of_a_study_file() -> None:
    top, roles, treatments = (PAGE.split(title)[1].split("\n## ")[0] for title in ("## At", "## Roles", "## Treat"))
    assert not [key for key in Study.model_fields if f"`{key}`" not in top and key not in READ_ONLY]
    assert not [key for key in Role.model_fields if f"`{key}`" not in roles and key not in READ_ONLY]
    assert not [key for key in Grid.model_fields if key not in treatments]
    assert not [key for key in Treatment.model_fields if key not in treatments]


def test_study_file_page_lists_every_factor_target() -> None:
    factors = PAGE.split("## Factors")[1].split("\n## ")[0]
    assert not [facet for facet in get_args(FactorTarget) if f"`{facet}`" not in factors]
