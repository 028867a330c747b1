"""A project with the repository's studies, and the lab of tools that misbehave, for the files that use `rig`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from loadbook.store.paths import Layout
    from misbehaving_tools import Rig


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An empty project with the repository's studies."""
    from recorded_run import with_studies

    return with_studies(tmp_path / "home")


@pytest.fixture(scope="module")
def lab_of_fakes(tmp_path_factory):
    """A lab whose hosts look for tools in a folder of fakes first, and that folder."""
    from loopback_labs import own_lab
    from misbehaving_tools import home_for_fakes

    with ExitStack() as stack:
        # only while this lab starts: another lab may start during these tests
        with home_for_fakes(tmp_path_factory.mktemp("fakes")) as bin_:
            lab = stack.enter_context(own_lab())
        yield lab, bin_


@pytest.fixture
def rig(lab_of_fakes, tmp_path) -> Iterator[Rig]:
    """A project on that lab; its fakes go with the test."""
    from misbehaving_tools import Rig
    from recorded_run import with_studies

    lab, bin_ = lab_of_fakes
    yield Rig(lab, bin_, with_studies(tmp_path / "home"))
    for file in bin_.iterdir():
        file.unlink()
