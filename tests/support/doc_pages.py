"""Pages of docs/ as a reader takes them: files to write, commands to type, and what is to be seen then.

A block is a file when its first or second line is `# its/path`, or when `<!-- file: its/path -->` stands above it. In a
`console` block `$ ` begins a command, which must end with exit code 0. Below it stands what is printed, if the page
shows it: `...` alone is any number of lines, within a line anything, and a number is any number; a verdict, a line that
begins with the mark of one, is whichever the reader's machines gave; after `[y/N]: ` stands what is typed.
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
    """A file that the reader writes; `~` in its path is the home folder."""

    path: str
    text: str


class Command(NamedTuple):
    """A command line, and the lines that are to be seen."""

    line: str
    printed: str

    @property
    def typed(self) -> str:
        """Return what is typed when the command asks: every answer that the page shows, then yes."""
        return "".join(f"{answer}\n" for answer in re.findall(r"\[y/N\]: (.+)", self.printed)) + "y\n" * 20


def steps(page: str, renamed: Mapping[str, str] | None = None) -> list[File | Command]:
    """Return what a reader of docs/`page` does, in order; words in `renamed` are others on this machine."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for word, other in (renamed or {}).items():
        assert word in text, f"{page} does not say {word}"
        text = text.replace(word, other)
    return [step for block in BLOCK.finditer(text) for step in _steps(block)]


def _steps(block: re.Match[str]) -> Iterator[File | Command]:
    text, named = block["text"], NAMED.match(block["text"])
    if block["kind"] == "console":
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            line, _, printed = re.sub(r" *\\\n *", " ", part).partition("\n")
            yield Command(line, printed)
    elif block["above"] or named:
        yield File(block["above"] or (named["path"] if named else ""), text)


def seen(printed: str, out: str) -> bool:
    """Tell whether what came out is what a page shows."""
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
