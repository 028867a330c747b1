"""The tutorial and the how-to pages, done as they stand there: quickly without hosts, and whole in a lab."""

from __future__ import annotations

import re
import sys

import pytest

import loadbook.tools
from command_line import exit_code
from doc_pages import DOCS, File, page_text, seen, steps
from doc_reader import Reader, without_hosts

OWN_TOOL = "tools.md#A load generator of your own"
PAGES = [
    "tutorial.md",
    "howto-config.md",
    OWN_TOOL,
    "hosts.md#Behind a jump host",
    "hosts.md#Cloud machines",
]


def test_walkthrough_detects_output_that_differs_from_the_page():
    assert seen("", "anything") and seen("a 3 %\n", "a  4.5 %\n") and seen("...\nb\n", "a\na\nb\n")
    assert seen("a [y/N]: y\nb: stored\n", "a [y/N]: b: stored\n") and seen("x ... z\n", "x y z\n")
    assert not seen("a\n", "a\nb\n") and not seen("a\nb\n", "b\na\n") and not seen("slower by 3 %\n", "faster by 3 %\n")


def test_walkthrough_accepts_any_verdict_in_place_of_the_pages_verdict():
    assert seen("▲ a is faster by 3 %\n", "▼ a is slower by 4 %\n")
    assert seen("▲ a is faster by 3 %\n", "No verdict: the A/A arm differs from the baseline.\n")
    assert not seen("▲ a is faster by 3 %\n", "a is faster by 3 %\n")


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


def test_walkthrough_of_howto_cloud_shows_the_real_error_for_an_unlisted_target(tmp_path, monkeypatch, capsys):
    reader = Reader(tmp_path)
    for step in steps("hosts.md#Cloud machines"):
        if isinstance(step, File):
            reader.write(step._replace(text=re.sub(r"^external = \[.*\n", "", step.text, flags=re.MULTILINE)))
    monkeypatch.chdir(reader.root)
    assert exit_code(monkeypatch, "plan", "cloud", "--hosts", "hosts.toml") == 2
    (shown,) = re.findall(r"```\n(hosts.toml: 1 problem\n.*?)```", page_text("hosts.md#Cloud machines"), re.DOTALL)
    assert shown in capsys.readouterr().err


def test_docs_index_links_every_page():
    index = (DOCS / "README.md").read_text()
    pages = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert pages - set(re.findall(r"\]\(([\w-]+\.md)\)", index)) == set(), "nobody finds these pages"
