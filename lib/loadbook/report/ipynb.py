"""Notebook files, read by nbformat.

nbformat imports jsonschema, which builds grammars of internationalised URIs at its import (rfc3987_syntax 1.1): more
than a second of CPU time. The schema of notebooks has no such URI, so jsonschema is imported without them. Modules that
import nbformat, nbconvert or papermill call `import_nbformat` first.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from loadbook.core.errors import ReportError

_GRAMMARS = "rfc3987_syntax"
# cells with this tag are for a reader in JupyterLab: they are neither executed for a page nor shown on it
NOTEBOOK_ONLY_TAG = "notebook-only"


def import_nbformat() -> Any:
    """Return the module nbformat; jsonschema's own checks of internationalised URIs are left out."""
    absent = _GRAMMARS not in sys.modules and "jsonschema" not in sys.modules
    if absent:
        sys.modules[_GRAMMARS] = None  # type: ignore[assignment]  # an ImportError, which jsonschema expects
    try:
        import nbformat
    finally:
        if absent:
            del sys.modules[_GRAMMARS]
    return nbformat


def is_on_page(cell: Any) -> bool:
    """Return whether a cell is part of the exported page: it has no tag "notebook-only"."""
    return NOTEBOOK_ONLY_TAG not in cell["metadata"].get("tags", [])


def read_notebook(path: Path) -> Any:
    """Return a notebook as nbformat reads it; ReportError if the file cannot be read or is no notebook."""
    nbformat = import_nbformat()
    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        raise ReportError(f"{path} is not a readable notebook: {error}") from error
