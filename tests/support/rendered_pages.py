"""HTML of a page without a Jupyter kernel: the cells of its notebook are executed in the test's own process."""

from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_output

from loadbook.report import html

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def page_html(page: Any) -> str:
    """Return the HTML of the page's notebook, with the output of every cell `page.<block>()`."""
    book = nbformat.read(NOTEBOOKS / f"{page.notebook}.ipynb", as_version=4)
    for k, cell in enumerate(book.cells):
        last = cell.source.splitlines()[-1]
        if cell.cell_type == "code" and last.startswith("page."):
            displayed = getattr(page, last.removeprefix("page.").removesuffix("()"))()
            data = new_output("execute_result", data=displayed._repr_mimebundle_())
            book.cells[k] = new_code_cell(cell.source, outputs=[data])
    return html.to_html(book, page.run_data.study.question, [("All studies", "index.html")])
