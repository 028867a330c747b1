"""docs/study-file.md: its examples are valid; it names all targets of factors and keys of treatments."""

import re
import tomllib
from pathlib import Path
from typing import get_args

from loadbook.study.model import Study
from loadbook.study.treatments import Factor, FactorTarget, Grid, Role, Treatment

PAGE = (Path(__file__).parents[3] / "docs" / "study-file.md").read_text()


def test_study_file_page_examples_are_valid_tables() -> None:
    examples = tomllib.loads("\n".join(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)))
    assert set(examples) == {"roles", "factors", "grid"}
    assert all(Role.model_validate(role) for role in examples["roles"].values())
    assert all(Factor.model_validate(factor) for factor in examples["factors"].values())
    assert Grid.model_validate(examples["grid"])


def test_study_file_page_names_tables_and_keys() -> None:
    top = PAGE.split("## Roles")[0]
    tables = set(re.findall(r"`\[(\w+)\]`", top))
    assert tables <= set(Study.model_fields) and tables >= {"roles", "workload", "factors", "treatments", "published"}
    treatments = PAGE.split("## Treatments")[1].split("### Grid")[0]
    assert not [key for key in Treatment.model_fields if f"`{key}" not in treatments]


def test_study_file_page_lists_every_factor_target() -> None:
    factors = PAGE.split("## Factors")[1].split("\n## ")[0]
    assert not [facet for facet in get_args(FactorTarget) if f"`{facet}`" not in factors]
