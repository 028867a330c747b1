"""Steps that a page of docs/ describes: files to write, commands to type, and their expected output.

A code block is a file if its first or second line is `# its/path`, or `<!-- file: its/path -->` precedes it. In a
`console` block `$ ` begins a command, which must end with exit code 0. The lines below it, if any, are its expected
output, in which a line `...` matches any lines, `...` within a line any text, a number any number, and a verdict (a
line that begins with a verdict's mark) any verdict; the text after `[y/N]: ` is typed by the reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from loadbook.report.palette import VERDICTS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(
    r"(?:<!-- file: (?P<above>\S+) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
NAMED = re.compile(r"\A(?:#!.*\n)?# (?P<path>[~\w./-]+)\n")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
MARKS = "".join(style.glyph for style in VERDICTS.values())
VERDICT = rf"(?:[{MARKS}] |No verdict).*"


class File(NamedTuple):
    """A file that the reader writes; `~` in its path stands for the home folder."""

    path: str
    text: str


class Command(NamedTuple):
    """A command line, and the lines of its expected output."""

    line: str
    printed: str

    @property
    def typed(self) -> str:
        """Return the input for the command's questions: the answers that the page shows, then "yes" to all others."""
        return "".join(f"{answer}\n" for answer in re.findall(r"\[y/N\]: (.+)", self.printed)) + "y\n" * 20


def steps(page: str, renamed: Mapping[str, str] | None = None) -> list[File | Command]:
    """Return the steps of docs/`page` in order; `renamed` maps words on the page to their values on this machine.

    A page may be a section of one: "hosts.md#Cloud machines".
    """
    text = page_text(page)
    for word, other in (renamed or {}).items():
        assert word in text, f"{page} does not say {word}"
        text = text.replace(word, other)
    return [step for block in BLOCK.finditer(text) for step in _steps(block)]


def page_text(page: str) -> str:
    """Return the text of docs/`page`, or of one section of a page, which ends at the next heading of its level."""
    name, _, section = page.partition("#")
    text = (DOCS / name).read_text(encoding="utf-8")
    if not section:
        return text
    found = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{name} has no section {section}"
    return found[1]


def _steps(block: re.Match[str]) -> Iterator[File | Command]:
    text, named = block["text"], NAMED.match(block["text"])
    if block["kind"] == "console":
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            line, _, printed = re.sub(r" *\\\n *", " ", part).partition("\n")
            yield Command(line, printed)
    elif block["above"] or named:
        yield File(block["above"] or (named["path"] if named else ""), text)


def seen(printed: str, out: str) -> bool:
    """Return whether the output of a command, `out`, matches `printed`, the output that a page shows."""
    lines = [line for line in re.sub(r"(\[y/N\]:) .+\n", r"\1 ", printed).splitlines() if line.strip()]
    if not lines:
        return True
    whole = "".join(r"(?:.*\n)*?" if line == "..." else _line(line) + r"\s*\n" for line in lines)
    return re.fullmatch(whole, "".join(f"{_plain(line)}\n" for line in out.splitlines() if line.strip())) is not None


def _line(line: str) -> str:
    if line.strip()[0] in MARKS:
        return VERDICT
    parts = [re.escape(_plain(part)).replace(r"\#", "#") for part in line.split("...")]
    return ".*".join(parts)


def _plain(line: str) -> str:
    return re.sub(r"[ \t\xa0]+", " ", NUMBER.sub("#", line.strip()))
