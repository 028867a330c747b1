"""Blocks (the content of a notebook cell in a report), and the parts that many blocks share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from loadbook.core.metrics import get_metric
from loadbook.report import nodes, palette
from loadbook.report.palette import DOUBT_GLYPH, FAILED_GLYPH
from loadbook.stats.results import AnalysisRow, CheckState, RowKind

# marks in a cell's output for the export: move this section to the top; leave this section out
URGENT_MIME = "application/vnd.loadbook.urgent+json"
EMPTY_MIME = "application/vnd.loadbook.empty+json"

# the end marker of a notebook: its last cell writes the summary of its page under this type
DONE_MIME = "application/vnd.loadbook.done+json"


class Block(nodes.Group):
    """The content of a notebook cell; `data` adds further MIME types to the cell's output, such as the end marker."""

    def __init__(self, *children: nodes.Content, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(*children)
        self.data = data or {}

    @cached_property
    def html(self) -> str:
        """The block as HTML."""
        return str(nodes.to_html(self))

    @cached_property
    def text(self) -> str:
        """The block as plain text, for terminals and diffs."""
        return nodes.to_text(self)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the output for Jupyter: HTML, plain text, Markdown, and the MIME types of `data`."""
        html = f'<div class="lb cell">{self.html}</div>'
        return {"text/html": html, "text/plain": self.text, "text/markdown": nodes.to_markdown(self), **self.data}


def note(text: str) -> nodes.Paragraph:
    """Return a paragraph in the grey style of side notes."""
    return nodes.Paragraph(text, css="soft")


def note_block(text: str) -> Block:
    """Return a block that contains only a side note."""
    return Block(note(text))


def empty_section(text: str) -> Block:
    """Return the block of a section without content; exported pages leave the section out."""
    return Block(note(text), data={EMPTY_MIME: True})


def lines_list(lines: Iterable[nodes.Content]) -> nodes.BulletList:
    """Return sentences as a bullet list."""
    return nodes.BulletList(lines, css="doubts")


def answer_box(
    headline: str, *lines: nodes.Content, kind: str = "", counts: Sequence[tuple[int, str]] = ()
) -> nodes.Division:
    """Return the box with a page's answer; `kind` is the verdict whose colour the bar beside the box has.

    `counts` are (number, word) pairs shown below the headline, in HTML only.
    """
    tally = nodes.BulletList(
        [nodes.Group(nodes.Strong(str(number)), f" {word}") for number, word in counts], css="counts"
    )
    paragraphs = [nodes.Paragraph(line) if isinstance(line, str) else line for line in lines if line]
    return nodes.Division(
        nodes.Paragraph(headline, css="headline"), *paragraphs, nodes.HtmlOnly(tally) if counts else None,
        css=f"answer bar-{kind}" if kind else "answer",
    )  # fmt: skip


def scope_nodes(question: str, line: str) -> nodes.Group:
    """Return the head of a page: the stylesheet, the question as title, and a line that describes the run."""
    return nodes.Group(nodes.Stylesheet(), nodes.Heading(question, level=1), nodes.Paragraph(line, css="scope"))


def provenance_line(pairs: Sequence[tuple[str, str]]) -> nodes.Group:
    """Return a page's sources (name, value): one line in HTML, one line each in plain text."""
    return nodes.Group(
        nodes.HtmlOnly(nodes.Paragraph(" · ".join(f"{name} {value}" for name, value in pairs), css="provenance")),
        nodes.TextOnly(*(nodes.Paragraph(f"{name}: {value}") for name, value in pairs)),
    )


def verdict_cell(row: AnalysisRow, metric: str) -> nodes.VerdictCell | str:
    """Return the table cell with a row's verdict; for the baseline the text "(reference)"."""
    if row.kind == "baseline":
        return "(reference)"
    return nodes.VerdictCell(
        f"v-{palette.row_kind(row)}", palette.row_glyph(row), palette.row_word(row, get_metric(metric))
    )


CHECK_SHORT_NAMES: dict[RowKind, str] = {"aa": "A/A", "control": "known effect"}
CHECK_STATES: tuple[CheckState, ...] = ("failed", "inconclusive", "unchecked", "passed")  # worst first
CHECK_GLYPHS = {"failed": FAILED_GLYPH, "inconclusive": DOUBT_GLYPH, "unchecked": "–", "passed": "✓"}
_OLD_STATES = {True: "passed", False: "failed", None: "unchecked"}  # for older summaries, which lack `check_states`
CI_GLYPHS = {"passed": "✓", "failed": FAILED_GLYPH, "invalid": DOUBT_GLYPH}


def check_texts(summary: Mapping[str, Any]) -> list[str]:
    """Return texts such as "✓ A/A", "✓ known effect" (positive control) and "✓ build gate" for a summary.

    Checks without a result in the summary are left out.
    """
    states = {kind: _OLD_STATES[summary[kind]] for kind in CHECK_SHORT_NAMES if kind in summary}
    states |= summary.get("check_states", {})
    texts = [f"{CHECK_GLYPHS[states[kind]]} {words}" for kind, words in CHECK_SHORT_NAMES.items() if kind in states]
    gate = summary.get("gate")
    return [*texts, f"{CI_GLYPHS[gate['outcome']]} build gate"] if gate else texts
