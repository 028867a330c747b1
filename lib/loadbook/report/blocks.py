"""A piece of a report: HTML for readers, plain text for terminals and diffs. The one door from values to markup.

Every string that comes from a host, a tool or a study is hostile: it passes a template with autoescape, and loses
its control characters on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from loadbook.core.text import clean as cleaned
from loadbook.report import palette

# marks in an output's data, read when the notebook is exported: put this section first; leave this section out
URGENT_MIME = "application/vnd.loadbook.urgent+json"
EMPTY_MIME = "application/vnd.loadbook.empty+json"
TEMPLATES_DIR = Path(__file__).parent / "templates"


@dataclass(frozen=True, repr=False)
class Block:
    """What a notebook cell shows; `data` adds further MIME types to the output (read by `report.notebooks`)."""

    html: str
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the output for Jupyter: HTML, its plain text, and what `data` adds."""
        return {"text/html": f'<div class="lb cell">{self.html}</div>', "text/plain": self.text, **self.data}


def clean(value: Any) -> Any:
    """Return text without control characters (see `core.text`); other values, and markup of ours, as they are."""
    return cleaned(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def jinja_environment() -> Environment:
    """Return the jinja environment of all pages: autoescape always, unknown names are errors."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES_DIR),
        autoescape=True,
        finalize=clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> Markup:
    """Fill one of report/templates and return it as markup that other templates may embed."""
    return Markup(jinja_environment().get_template(template).render(**values))  # noqa: S704 - autoescape made it safe


def render_block(template: str, text: str, **values: Any) -> Block:
    """Fill a template as a block; `text` is what a terminal shows instead."""
    return Block(str(render(template, **values)), str(clean(text)))


@cache
def stylesheet() -> str:
    """Return the style of all pages, the same in JupyterLab and in exported HTML; colours come from the palette."""
    names = {
        "ink": palette.INK, "soft": palette.SOFT, "tint": palette.TINT, "grid": palette.GRID, "rule": palette.RULE,
        "link": palette.LINK, "doubt-box": palette.DOUBT_BOX, "doubt-text": palette.DOUBT_TEXT,
    }  # fmt: skip
    colours = "".join(f"--{name}: {colour}; " for name, colour in names.items())
    verdicts = "".join(
        f".lb .v-{kind} {{ color: {style.text}; }} .lb .bar-{kind} {{ --bar: {style.fill}; }}\n"
        for kind, style in palette.VERDICTS.items()
    )
    return f":root {{ {colours}}}\n" + (TEMPLATES_DIR / "report.css").read_text(encoding="utf-8") + verdicts


def notebook_style() -> str:
    """Return the style as an element for the first block of a notebook; exported pages have it in their head."""
    return f"<style data-notebook>\n{stylesheet()}</style>\n"
