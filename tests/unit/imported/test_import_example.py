"""The worked example of docs/import.md, typed as it stands there; and the pages that come of it."""

from __future__ import annotations

from recorded_run import REPO

TEXT = (REPO / "docs" / "import.md").read_text(encoding="utf-8")


def test_import_documentation_explains_every_column_and_option():
    from loadbook.cli.imports import import_
    from loadbook.imported.outputs import OPTIONAL, REQUIRED
    from loadbook.tools import base

    assert all(f"| `{name}` |" in TEXT for name in (*REQUIRED, *OPTIONAL))
    assert all(option.opts[0] in TEXT for option in import_.params if option.opts[0].startswith("--"))
    assert ", ".join(base.tool_names()) in TEXT
