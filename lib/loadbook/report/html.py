"""Export of an executed notebook as one self-contained HTML file: no script, no external request.

The content security policy forbids scripts and requests, and a scan of the page refuses them, too: a page that does not
pass is not written. nbconvert renders the template templates/page.html.j2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from loadbook.core.errors import ReportError
from loadbook.report.blocks import EMPTY_MIME, URGENT_MIME
from loadbook.report.render import TEMPLATES_DIR, clean, notebook_style, page_stylesheet
from loadbook.store.atomic import write_atomic

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'"
)
MAX_PAGE_BYTES = 3_000_000
NOTEBOOK_ONLY_TAG = "notebook-only"
_ACTIVE_ELEMENTS = (
    "script", "iframe", "frame", "frameset", "object", "embed", "applet", "link", "base", "form", "input", "button",
    "svg", "math", "video", "audio", "template", "noscript", "xmp", "plaintext", "textarea",
)  # fmt: skip
# as browsers read it, wherever it stands: what is text has `&lt;` there
_ACTIVE_TAG = re.compile(rf"<\s*/?\s*({'|'.join(_ACTIVE_ELEMENTS)})\b", re.IGNORECASE)
# a policy cannot forbid a page to go elsewhere by itself; ours has its `meta` in its head alone
_META_TAG = re.compile(r"<\s*meta\b", re.IGNORECASE)
_MAX_HEAD_METAS = 5
_STYLE_REQUEST = re.compile(r"@import|url\s*\(|image-set\s*\(|src\s*\(|expression\s*\(|\\", re.IGNORECASE)
# to a place in the page, or to a file of ours beside or below it
_INNER_LINK = re.compile(r"#[\w-]+|(?:[A-Za-z0-9][\w.-]*/){0,2}[A-Za-z0-9][\w.-]*\.(?:html|ipynb|json)(#[\w-]+)?")

Breadcrumbs = Sequence[tuple[str, str | None]]


def export_html(notebook: Path, out: Path, title: str, breadcrumbs: Breadcrumbs = ()) -> None:
    """Write the executed `notebook` as the HTML file `out`; `breadcrumbs` are (text, file name or None) above it.

    Raises
    ------
    ReportError : the page holds something active or external, or is larger than 3 MB; `out` is left as it was.
    """
    import nbformat

    page = to_html(nbformat.read(notebook, as_version=4), title, breadcrumbs)
    found = forbidden_content(page)
    if found:
        raise ReportError(f"{out.name}: not exported, it would hold {'; '.join(found[:5])}")
    data = page.encode()
    if len(data) > MAX_PAGE_BYTES:
        raise ReportError(
            f"{out.name}: {len(data):,} bytes, more than {MAX_PAGE_BYTES:,}", "fewer marks, or fewer blocks"
        )
    write_atomic(out, data)


def to_html(notebook: Any, title: str, breadcrumbs: Breadcrumbs = ()) -> str:
    """Return an executed notebook as a page; the same notebook always gives the same page."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(template_file=str(TEMPLATES_DIR / "page.html.j2"), exclude_anchor_links=True)
    exporter.register_filter("clean", clean)
    exporter.register_filter("section_links", add_section_links)
    notebook.cells = arrange_cells([cell for cell in notebook.cells if _is_exported(cell)])
    style = {"style": page_stylesheet(), "notebook_style": notebook_style()}
    values = {"policy": CONTENT_SECURITY_POLICY, "title": title, "crumbs": list(breadcrumbs), **style}
    page, _ = exporter.from_notebook_node(notebook, resources={"loadbook": values})
    return str(page)


def export_markdown(notebook: Path, out: Path) -> None:
    """Write the executed `notebook` as the Markdown file `out`: its text and its blocks, without pictures and code."""
    import nbformat

    cells = [c for c in nbformat.read(notebook, as_version=4).cells if _is_exported(c)]
    parts: list[str] = []
    for cell in arrange_cells(cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts += [
                o["data"]["text/markdown"] for o in cell.get("outputs", []) if "text/markdown" in o.get("data", {})
            ]
    write_atomic(out, ("\n\n".join(filter(None, parts)) + "\n").encode())


def _is_exported(cell: Any) -> bool:
    return NOTEBOOK_ONLY_TAG not in cell.metadata.get("tags", [])


def add_section_links(html: str) -> str:
    """Return rendered Markdown with an anchor and a link at each section heading."""

    def link(heading: re.Match[str]) -> str:
        anchor = "-".join(re.findall(r"[a-z0-9]+", re.sub(r"<.*?>", "", heading[1]).lower()))
        return (
            f'<h2 id="{anchor}"><a class="anchor" href="#{anchor}" title="Link to this section"></a>{heading[1]}</h2>'
        )

    return re.sub(r"<h2[^>]*>(.*?)</h2>", link, html, flags=re.DOTALL)


def arrange_cells(cells: list[Any]) -> list[Any]:
    """Return the cells with empty sections left out, and those marked `URGENT_MIME` before the first section.

    A section begins at a heading; what a section is, its blocks have said in their outputs.
    """
    sections: list[list[Any]] = [[]]
    for cell in cells:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            sections.append([])
        sections[-1].append(cell)
    head, *rest = sections
    sections_kept = [section for section in rest if not any(_has_mime_type(cell, EMPTY_MIME) for cell in section)]
    sections_kept.sort(key=lambda section: not any(_has_mime_type(cell, URGENT_MIME) for cell in section))
    return [cell for section in (head, *sections_kept) for cell in section]


def _has_mime_type(cell: Any, mark: str) -> bool:
    return any(mark in output.get("data", {}) for output in cell.get("outputs", []))


class _ContentScanner(HTMLParser):
    """Collects forbidden content of an exported page."""

    def __init__(self, ours: Collection[str]) -> None:
        super().__init__()
        self.findings: list[str] = []
        self.allowed_links = ours
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        checked = [(name, value or "") for name, value in attrs if not (name == "href" and value in self.allowed_links)]
        self.findings += [f"{name}={value!r}"[:80] for name, value in checked if _is_forbidden_attribute(name, value)]

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style and _STYLE_REQUEST.search(data):
            self.findings.append("a style that may load something")


def _is_forbidden_attribute(name: str, value: str) -> bool:
    if name in ("src", "srcset"):
        return not value.startswith("data:image/")
    if name == "href":
        return not _INNER_LINK.fullmatch(value)
    if name == "http-equiv":
        return value.lower() != "content-security-policy"
    if name == "style":
        return bool(_STYLE_REQUEST.search(value))
    return name.startswith("on") or name in ("action", "formaction", "background", "poster", "ping", "srcdoc")


def forbidden_content(page: str, allowed_links: Collection[str] = ()) -> list[str]:
    """Return every script, event handler, active element and address outside the page, empty for a good page.

    `allowed_links` are further addresses that links may have, each as it stands.
    """
    scan = _ContentScanner(allowed_links)
    scan.feed(page)
    scan.close()
    tags = [f"<{found[1].lower()}>" for found in _ACTIVE_TAG.finditer(page)]
    return tags + _unexpected_metas(page) + scan.findings


def _unexpected_metas(page: str) -> list[str]:
    """Return the problems of a page's `meta` elements: only those of the template are allowed, in the head."""
    head, _, body = page.partition("</head>")
    return ["<meta>"] if len(_META_TAG.findall(head)) > _MAX_HEAD_METAS or _META_TAG.search(body) else []
