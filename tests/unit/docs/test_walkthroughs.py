"""The tutorial and the how-to pages, done as they stand there: quickly without hosts, and whole in a lab."""

from __future__ import annotations

import re

from command_line import exit_code
from doc_pages import DOCS, File, page_text, seen, steps
from doc_reader import Reader


def test_walkthrough_detects_output_that_differs_from_the_page():
    assert seen("", "anything") and seen("a 3 %\n", "a  4.5 %\n") and seen("...\nb\n", "a\na\nb\n")
    assert seen("a [y/N]: y\nb: stored\n", "a [y/N]: b: stored\n") and seen("x ... z\n", "x y z\n")
    assert not seen("a\n", "a\nb\n") and not seen("a\nb\n", "b\na\n") and not seen("slower by 3 %\n", "faster by 3 %\n")


def test_walkthrough_accepts_any_verdict_in_place_of_the_pages_verdict():
    assert seen("▲ a is faster by 3 %\n", "▼ a is slower by 4 %\n")
    assert seen("▲ a is faster by 3 %\n", "No verdict: the A/A arm differs from the baseline.\n")
    assert not seen("▲ a is faster by 3 %\n", "a is faster by 3 %\n")


def test_walkthrough_of_howto_cloud_shows_the_real_error_for_an_unlisted_target(tmp_path, monkeypatch, capsys):
    reader = Reader(tmp_path)
    for step in steps("hosts.md#Cloud machines"):
        if isinstance(step, File):
            reader.write(step._replace(text=re.sub(r"^external = \[.*\n", "", step.text, flags=re.MULTILINE)))
    monkeypatch.chdir(reader.root)
    assert exit_code(monkeypatch, "plan", "cloud", "--hosts", "hosts.toml") == 2
    (displayed,) = re.findall(r"```\n(hosts.toml: 1 problem\n.*?)```", page_text("hosts.md#Cloud machines"), re.DOTALL)
    assert displayed in capsys.readouterr().err


def test_docs_index_links_every_page():
    index = (DOCS / "README.md").read_text()
    pages = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert pages - set(re.findall(r"\]\(([\w-]+\.md)\)", index)) == set(), "nobody finds these pages"
