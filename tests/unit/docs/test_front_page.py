"""The front page and the changelog are short enough to be read."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def sentences(text: str) -> list[str]:
    """Return the sentences of a Markdown text, without its code, tables and pictures."""
    prose = re.sub(r"```.*?```|^\|.*?$|!\[.*?\]\(.*?\)|^#.*?$", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    paragraphs = re.split(r"\n\s*\n|\n- ", prose)
    return [s for paragraph in paragraphs for s in re.split(r"(?<=[.?!])\s", " ".join(paragraph.split())) if s]


def test_front_page_has_at_most_90_lines_of_100_columns():
    lines = README.splitlines()
    assert len(lines) <= 90 and max(map(len, lines)) <= 100


def test_no_sentence_of_the_front_page_has_more_than_30_words():
    assert [sentence for sentence in sentences(README) if len(sentence.split()) > 30] == []
    assert len(sentences(README)) > 20


def test_front_page_begins_with_a_number_and_a_picture():
    first = README.split("\n## ")[0]
    assert re.search(r"\d \(95 % interval|\d % \(95 % interval", first) and "](docs/report.png)" in first
    assert README.index("95 %") < README.index("blocks")


def test_changelog_of_a_version_has_at_most_40_lines():
    (unreleased, *_) = re.split(r"\n## ", (ROOT / "CHANGELOG.md").read_text())[1:]
    assert len(unreleased.splitlines()) <= 40
