"""The pages of docs/reference, made from the code: `python tests/unit/reference/reference_pages.py` writes them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "support"))  # where pytest finds them by itself

import command_page
import key_pages
import python_page
import tables_page
import tools_page

import doc_tables
import fault_proofs

FOLDER = Path(__file__).parents[3] / "docs" / "reference"
COMMAND = ".venv/bin/python tests/unit/reference/reference_pages.py"
MADE = f"<!-- made by {COMMAND}: edit docstrings and help texts instead -->"
PAGES: dict[str, Callable[[], str]] = {
    "command-line.md": command_page.page,
    "python.md": python_page.page,
    "study-file.md": key_pages.study_page,
    "hosts-file.md": key_pages.hosts_page,
    "batch-file.md": key_pages.batch_page,
    "load-generators.md": tools_page.page,
    "tables.md": tables_page.page,
    "services.md": doc_tables.variables_page,
    "fault-cases.md": fault_proofs.cases_page,
}


def written(name: str) -> str:
    """Return a page as it should be: its heading, where it comes from, the rest."""
    heading, _, rest = PAGES[name]().partition("\n")
    return f"{heading}\n\n{MADE}\n{rest}"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        (FOLDER / name).write_text(written(name), encoding="utf-8")
