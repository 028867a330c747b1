"""Export of pages: an executed notebook as one self-contained HTML file, and small JSON files beside the pages.

A page has no script and makes no external request: the content security policy forbids both, and a page is written only
if a scan finds neither. nbconvert renders the template templates/page.html.j2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from loadbook.core.errors import DataError, ReportError
from loadbook.report.blocks import EMPTY_MIME, URGENT_MIME
from loadbook.report.ipynb import import_nbformat, is_on_page, read_notebook
from loadbook.report.nodes import clean
from loadbook.report.palette import TEMPLATES_DIR, notebook_style, page_stylesheet
from loadbook.store.atomic import write_atomic
from loadbook.store.trial_record import read_json, write_json

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'"
)
MAX_PAGE_BYTES = 3_000_000
_ACTIVE_ELEMENTS = (
    "script", "iframe", "frame", "frameset", "object", "embed", "applet", "link", "base", "form", "input", "button",
    "svg", "math", "video", "audio", "template", "noscript", "xmp", "plaintext", "textarea",
)  # fmt: skip
# found anywhere, as browsers do; in text "<" is written `&lt;`
_ACTIVE_TAG = re.compile(rf"<\s*/?\s*({'|'.join(_ACTIVE_ELEMENTS)})\b", re.IGNORECASE)
# refused, as a policy cannot forbid redirects by `meta`; pages have their own `meta` only in the head
_META_TAG = re.compile(r"<\s*meta\b", re.IGNORECASE)
_MAX_HEAD_METAS = 5
_STYLE_REQUEST = re.compile(r"@import|url\s*\(|image-set\s*\(|src\s*\(|expression\s*\(|\\", re.IGNORECASE)
# allowed links: to a place in the page, or to a file in the same folder or below
_INNER_LINK = re.compile(r"#[\w-]+|(?:[A-Za-z0-9][\w.-]*/){0,2}[A-Za-z0-9][\w.-]*\.(?:html|ipynb|json)(#[\w-]+)?")
_TEMPLATES = Environment(
    loader=FileSystemLoader(TEMPLATES_DIR), autoescape=True, finalize=clean, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip

Breadcrumbs = Sequence[tuple[str, str | None]]


def export_html(notebook: Path, out: Path, title: str, breadcrumbs: Breadcrumbs = ()) -> None:
    """Write the executed `notebook` as the HTML file `out`; `breadcrumbs` are links (text, file name or None) on top.

    Raises
    ------
    ReportError : the page has active or external content, or is larger than 3 MB; `out` stays unchanged.
    """
    page = to_html(read_notebook(notebook), title, breadcrumbs)
    if contents := forbidden_content(page):
        raise ReportError(f"{out.name}: not exported, it would hold {'; '.join(contents[:5])}")
    data = page.encode()
    if len(data) > MAX_PAGE_BYTES:
        message = f"{out.name}: {len(data):,} bytes, more than {MAX_PAGE_BYTES:,}"
        raise ReportError(message, "fewer marks, or fewer blocks")
    write_atomic(out, data)


def fill_template(template: str, **values: Any) -> Markup:
    """Render a template of report/templates; values are always escaped, and undefined names are errors."""
    return Markup(_TEMPLATES.get_template(template).render(**values))  # noqa: S704 - autoescape made it safe


def write_page(path: Path, title: str, template: str, allowed_links: Collection[str] = (), /, **values: Any) -> None:
    """Write a page from a template by an atomic rename.

    Raises
    ------
    ReportError : the page, called `title` in the message, has active or external content; the file stays unchanged.
    """
    page = str(fill_template(template, **values, style=page_stylesheet(), policy=CONTENT_SECURITY_POLICY))
    if forbidden := forbidden_content(page, allowed_links):
        raise ReportError(f"{title}: not written, it would hold {'; '.join(forbidden[:5])}")
    write_atomic(path, page.encode())


def to_html(notebook: Any, title: str, breadcrumbs: Breadcrumbs = ()) -> str:
    """Return an executed notebook as an HTML page; the same notebook always gives the same bytes."""
    import_nbformat()
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(template_file=str(TEMPLATES_DIR / "page.html.j2"), exclude_anchor_links=True)
    exporter.register_filter("clean", clean)
    exporter.register_filter("section_links", _add_section_links)
    notebook.cells = arrange_cells([*filter(is_on_page, notebook.cells)])
    values = {"policy": CONTENT_SECURITY_POLICY, "style": page_stylesheet(), "notebook_style": notebook_style(),
              "title": title, "crumbs": list(breadcrumbs)}  # fmt: skip
    page, _ = exporter.from_notebook_node(notebook, resources={"loadbook": values})
    return str(page)


def export_markdown(notebook: Path, out: Path) -> None:
    """Write the executed `notebook` as the Markdown file `out`: its texts and blocks, without pictures and code."""
    parts: list[str] = []
    for cell in arrange_cells([*filter(is_on_page, read_notebook(notebook).cells)]):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        parts += [output.get("data", {}).get("text/markdown", "") for output in cell.get("outputs", [])]
    write_atomic(out, ("\n\n".join(filter(None, parts)) + "\n").encode())


def _add_section_links(html: str) -> str:
    """Return the HTML of rendered Markdown with an anchor and a link added to each section heading."""

    def link(heading: re.Match[str]) -> str:
        title = heading[1]
        anchor = "-".join(re.findall(r"[a-z0-9]+", re.sub(r"<.*?>", "", title).lower()))
        return f'<h2 id="{anchor}"><a class="anchor" href="#{anchor}" title="Link to this section"></a>{title}</h2>'

    return re.sub(r"<h2[^>]*>(.*?)</h2>", link, html, flags=re.DOTALL)


def arrange_cells(cells: list[Any]) -> list[Any]:
    """Return the cells without sections marked `EMPTY_MIME`, sections marked `URGENT_MIME` first.

    A section begins at a heading; the marks are in the outputs of its cells.
    """
    sections: list[list[Any]] = [[]]
    for cell in cells:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            sections.append([])
        sections[-1].append(cell)
    head, *rest = sections
    kept = [section for section in rest if not _has_mark(section, EMPTY_MIME)]
    kept.sort(key=lambda section: not _has_mark(section, URGENT_MIME))
    return [cell for section in (head, *kept) for cell in section]


def _has_mark(section: list[Any], mark: str) -> bool:
    return any(mark in output.get("data", {}) for cell in section for output in cell.get("outputs", []))


class _ContentScanner(HTMLParser):
    """Parser that collects forbidden content of an exported page."""

    def __init__(self, allowed_links: Collection[str]) -> None:
        super().__init__()
        self.findings: list[str] = []
        self.allowed_links, self.in_style = allowed_links, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.in_style = tag == "style"
        checked = [(name, value or "") for name, value in attrs if not (name == "href" and value in self.allowed_links)]
        self.findings += [f"{name}={value!r}"[:80] for name, value in checked if _is_forbidden_attribute(name, value)]

    def handle_endtag(self, tag: str) -> None:
        self.in_style = False

    def handle_data(self, data: str) -> None:
        if self.in_style and _STYLE_REQUEST.search(data):
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
    """Return the scripts, event handlers, active elements and external addresses of a page; empty if there are none.

    `allowed_links` are further addresses that links may have, compared literally.
    """
    scan = _ContentScanner(allowed_links)
    scan.feed(page)
    scan.close()
    tags = [f"<{match[1].lower()}>" for match in _ACTIVE_TAG.finditer(page)]
    head, _, body = page.partition("</head>")
    if len(_META_TAG.findall(head)) > _MAX_HEAD_METAS or _META_TAG.search(body):
        tags.append("<meta>")
    return tags + scan.findings


_RUN_ID = re.compile(r"\d{8}\D?\d{6}[\w.-]*")
COMPARISON_SUFFIX = ".compared.json"
SUMMARY_SUFFIX = ".summary.json"


def write_summary(reports: Path, summary: dict[str, Any]) -> None:
    """Write a study's summary as JSON beside its pages; the index page is built only from these files.

    The file is ``<study>.summary.json``, named by the key "study" of the summary.
    """
    write_json(reports / f"{summary['study']}{SUMMARY_SUFFIX}", summary)


def keep_other_pages(reports: Path, study: str, run: str) -> None:
    """Keep the pages of a study's last report: if they belong to another run than `run`, add its id to their names.

    The links among them are updated. Pages kept earlier for `run` itself are deleted, as they are built again.
    """
    for path in reports.glob(f"{study}*-{run}.html"):
        path.unlink()
    try:
        old = read_json(reports / f"{study}{SUMMARY_SUFFIX}")
        names = [old["page"], *(name for title, name in old.get("more", {}).items() if title != "history")]
        old_run = str(old["run"])
    except (DataError, KeyError, TypeError):
        return
    pages = [reports / name for name in names if (reports / name).is_file()]
    if old_run == run:
        return
    renamed = {page.name: f"{page.stem}-{old_run}.html" for page in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for name, new in renamed.items():
            text = text.replace(f'href="{name}"', f'href="{new}"')
        write_atomic(reports / renamed[page.name], text.encode())


def earlier_pages(reports: Path, study: str, run: str) -> list[tuple[str, str]]:
    """Return (text, page) of links to the kept reports of a study's other runs, newest first."""
    kept = {path.stem.removeprefix(f"{study}-"): path.name for path in reports.glob(f"{study}-*.html")}
    runs = sorted((name for name in kept if _RUN_ID.fullmatch(name) and name != run), reverse=True)
    return [(f"run {name}", kept[name]) for name in runs]


def write_comparison(page: Path, study: str, run: str, against: str) -> None:
    """Write a JSON file beside the page of a comparison, with the ids of the two runs.

    `run` is the newer run, `against` the older one.
    """
    write_json(page.with_suffix(COMPARISON_SUFFIX), {"study": study, "run": run, "against": against})


def comparison_links(reports: Path, study: str, run: str = "") -> list[tuple[str, str]]:
    """Return (text, page) of links to the comparisons of two runs of a study, newest runs first.

    Parameters
    ----------
    run : return only comparisons with this run, the text names the other run; empty: all comparisons.
    """
    own = []
    for path in reports.glob(f"{study}-*{COMPARISON_SUFFIX}"):
        try:
            content = read_json(path)
        except DataError:  # truncated: the next comparison replaces it
            continue
        whole = isinstance(content, dict) and all(isinstance(content.get(key), str) for key in ("run", "against"))
        if whole and content.get("study") == study:
            page = path.name.removesuffix(COMPARISON_SUFFIX) + ".html"
            own.append((content["run"], content["against"], page))
    return [
        (f"compared with run {older if run == newer else newer}" if run else f"run {newer} against {older}", page)
        for newer, older, page in sorted(own, reverse=True)
        if (not run or run in (newer, older)) and (reports / page).is_file()
    ]
