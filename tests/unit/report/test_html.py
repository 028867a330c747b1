"""The exported page: one file, no script, no request, its numbers the same wherever they stand."""

import nbformat
import pytest

from loadbook.core.errors import ReportError
from loadbook.report import html
from loadbook.report.blocks import EMPTY_MIME, URGENT_MIME
from loadbook.report.html import MAX_PAGE_BYTES, forbidden_content


@pytest.mark.parametrize(
    "bad",
    [
        "<script>1</script>", "<SCRIPT src=x>", '<img src="https://x/y.png">', '<img src="data:text/html,x">',
        "<img src=data:image/png;base64,x onerror=alert(1)>", '<a href="https://x/">x</a>',
        '<a href="javascript:x">x</a>', "<style>@import 'x'</style>", "<style>p{background:url(x)}</style>",
        '<p style="background:url(x)">', '<iframe src="x">', '<form action="x">', '<link rel="stylesheet" href="x">',
        '<base href="x">', '<object data="x">', "<svg onload=x>",
        '<a href="//x/y">x</a>', '<a href="../../x.html">x</a>', '<a href="/x.html">x</a>',
        '<a href="a/../../x.html">x</a>', '<a href="batch/n/x.js">x</a>',
    ],
)  # fmt: skip
def test_export_refuses_pages_with_active_content(bad, tmp_path):
    assert forbidden_content(f"<html><body>{bad}</body></html>")
    book = nbformat.v4.new_notebook(cells=[views({"text/html": bad})])
    nbformat.write(book, tmp_path / "n.ipynb")
    with pytest.raises(ReportError, match="not exported"):
        html.export_html(tmp_path / "n.ipynb", tmp_path / "n.html", "t")
    assert not (tmp_path / "n.html").exists()


def views(data):
    return nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", data=data)])


@pytest.mark.parametrize(
    "good", ['<a href="#doubts">x</a>', '<a href="index.html">x</a>', '<img src="data:image/svg+xml,x">']
)
def test_export_accepts_pages_with_static_content(good):
    assert forbidden_content(good) == []


def test_export_escapes_streams_errors_and_plain_text():
    output = nbformat.v4.new_output
    nasty = "<script>alert(1)</script>\x1b[31m\u202e"
    cell = nbformat.v4.new_code_cell("nasty = '<script>'", outputs=[
        output("stream", name="stderr", text=nasty), output("display_data", data={"text/plain": nasty}),
        output("error", ename="E", evalue=nasty, traceback=[nasty]),
    ])  # fmt: skip
    page = html.to_html(nbformat.v4.new_notebook(cells=[cell]), nasty, [(nasty, "index.html")])
    assert forbidden_content(page) == []
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_export_puts_urgent_sections_first_and_drops_empty_ones():
    markdown = nbformat.v4.new_markdown_cell
    cells = [
        views({"text/plain": "head"}), markdown("## a?"), views({"text/plain": "a"}), markdown("## b?"),
        views({"text/plain": "b", URGENT_MIME: True}), markdown("## c?"), views({"text/plain": "c", EMPTY_MIME: True}),
    ]  # fmt: skip
    texts = [
        c.source if c.cell_type == "markdown" else c.outputs[0].data["text/plain"] for c in html.arrange_cells(cells)
    ]
    assert texts == ["head", "## b?", "b", "## a?", "a"]


def test_export_refuses_too_large_a_page(tmp_path):
    nbformat.write(nbformat.v4.new_notebook(cells=[views({"text/html": "x" * MAX_PAGE_BYTES})]), tmp_path / "n.ipynb")
    with pytest.raises(ReportError, match="more than"):
        html.export_html(tmp_path / "n.ipynb", tmp_path / "n.html", "t")
