"""A study of a few lines, read from a file: a test module's `TREATMENTS`, and the lines that a test adds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from loadbook.study.model import Study
from loadbook.study.reader import read_study

STUDY = """
name = "x"
question = "Does it matter?"
baseline = "base"
[roles.driver]
[roles.web]
service = "nginx"
[workload]
tool = "wrk"
"""
WEB = 'service = "nginx"'


@pytest.fixture
def read(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Study]:
    """Read a study that ends in these lines, begins with those on `top`, and has the line `web` in that role."""

    def read(lines: str, top: str = "", web: str = WEB) -> Study:
        path = tmp_path / "x.toml"
        path.write_text(top + STUDY.replace(WEB, web) + request.module.TREATMENTS + lines, encoding="utf-8")
        return read_study(path)

    return read
