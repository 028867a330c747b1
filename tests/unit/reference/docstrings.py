"""Docstrings as markdown: a summary, paragraphs, and the sections of numpydoc (Parameters, Raises, Examples, ...)."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
SECTION = re.compile(r"^(Parameters|Attributes|Returns|Yields|Raises|Examples|Notes)\n-+\n", re.MULTILINE)
ENTRY = re.compile(r"(?P<names>\S(?:[^:]|:(?! ))*?) : (?P<text>.*)")


@dataclass(frozen=True)
class Doc:
    """A docstring in parts; `sections` holds the text of each, `attributes` what is said of each name."""

    summary: str
    text: str
    sections: dict[str, str] = field(default_factory=dict)

    def entries(self, section: str) -> dict[str, str]:
        """Return names -> what is said of them; lines that are indented go on with what stands above."""
        found: dict[str, str] = {}
        for line in re.split(r"\n(?=\S)", self.sections.get(section, "").strip()):
            if match := ENTRY.match(" ".join(line.split())):
                found[match["names"]] = match["text"]
        return found

    def of(self, name: str) -> str:
        """Return what "Attributes" says of one name; several may share an entry ("a, b : both")."""
        return next((t for names, t in self.entries("Attributes").items() if name in names.split(", ")), "")


def doc_of(thing: object) -> Doc:
    """Return the docstring of a function, class or property; what is inherited is not its own."""
    own = getattr(thing, "__doc__", None) or ""
    head, *rest = SECTION.split(inspect.cleandoc(own).replace("``", "`"))
    summary, _, text = head.strip().partition("\n\n")
    return Doc(" ".join(summary.split()), _flowing(text), dict(zip(rest[::2], rest[1::2], strict=True)))


def _flowing(text: str) -> str:
    """Return paragraphs with one line each, blank lines between them."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def markdown(doc: Doc) -> str:
    """Return all of a docstring: lists for what has names, code for examples."""
    parts = [plain(doc.summary), plain(doc.text)]
    for title in ("Parameters", "Attributes", "Raises"):
        listed = [f"- {named(names)}: {plain(text)}" for names, text in doc.entries(title).items()]
        parts += [f"{title}:", "\n".join(listed)] if listed else []
    if "Examples" in doc.sections:
        parts.append(f"```python\n{doc.sections['Examples'].strip()}\n```")
    return "\n\n".join(filter(None, parts))


def named(names: str) -> str:
    """Return "a, b" as `a`, `b`."""
    return ", ".join(f"`{name}`" for name in names.split(", "))


def plain(text: str) -> str:
    """Return text with links to the pages it names, and no <words> that a code host takes for its own.

    What stands between ` is left alone.
    """
    return re.sub(r"`[^`]*`|<(?=[a-z])|docs/([a-z-]+)\.md", _shown, text)


def _shown(found: re.Match[str]) -> str:
    if found[1] and (DOCS / f"{found[1]}.md").is_file():
        return f"[{found[1].replace('-', ' ')}](../{found[1]}.md)"
    return "\\<" if found[0] == "<" else found[0]


def cell(text: str) -> str:
    """Return text that may stand in a cell of a markdown table."""
    return plain(" ".join(text.split())).replace("|", "\\|")


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a markdown table, or nothing where there are no rows."""
    if not rows:
        return ""
    lines = [heads, ["---"] * len(heads), *([cell(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)
