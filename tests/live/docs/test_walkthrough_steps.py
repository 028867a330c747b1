"""The tutorial and the how-to pages, done as they stand there: quickly without hosts, and whole in a lab."""

from __future__ import annotations

import sys

import pytest

import loadbook.tools
from doc_pages import File, steps
from doc_reader import Reader, without_hosts

OWN_TOOL = "tools.md#A load generator of your own"
PAGES = [
    "tutorial.md",
    "howto-config.md",
    OWN_TOOL,
    "hosts.md#Behind a jump host",
    "hosts.md#Cloud machines",
]


@pytest.fixture
def own_tools(tmp_path, monkeypatch):
    """The folder of a tool that a page adds; the page's own place is in the package of the reader's clone."""
    folder = tmp_path / "loadbook" / "own"
    folder.mkdir(parents=True)
    monkeypatch.setattr(loadbook.tools, "__path__", [*loadbook.tools.__path__, str(folder)])
    yield {"lib/loadbook/tools/burst.py": "own/burst.py"}
    sys.modules.pop("loadbook.tools.burst", None)


@pytest.mark.parametrize("page", PAGES)
def test_walkthrough_steps_that_need_no_hosts_work(page, tmp_path, own_tools, monkeypatch, capfd):
    reader, done = Reader(tmp_path), 0
    for step in steps(page, own_tools if page == OWN_TOOL else None):
        if isinstance(step, File):
            reader.write(step)
        elif without_hosts(step):
            reader.call(step, monkeypatch, capfd)
            done += "dry-run" in step.line
    assert done, f"{page} shows no dry run"
