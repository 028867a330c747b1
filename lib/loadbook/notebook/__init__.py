"""The Python interface for notebooks, ``import loadbook as lb``; modules in import order.

- `compare`: objects that a cell displays, metrics by name, tables of trials, comparisons within and between runs
- `plots`: every figure of the reports for one run, and one in which a user can zoom (plotly)
- `run`: a recorded run, ``lb.load``, and files of its trials
- `studies`: the table of studies, ``lb.history``, and pickers (ipywidgets)
- `detached`: a run in a process of its own, and its state
- `live_run`: show a plan, run a study with live progress, ingest, show the state of a run

This module also adds completion by the Tab key inside quotes: ``lb.load("`` lists studies, ``run.compare("`` metrics,
``run.why("`` trials.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

# matches: object.method("text before the cursor
OPEN_QUOTE = re.compile(r"(\w+)\.(\w+)\((?:[^()]*,\s*)?[\"']([^\"']*)$")


def register_completion(shell: InteractiveShell) -> None:
    """Register, in an IPython shell, completion of names inside quotes in calls of loadbook's functions and methods."""

    def complete(_: object, event: SimpleNamespace) -> list[str]:
        match = OPEN_QUOTE.search(event.text_until_cursor)
        if match is None:
            return []
        name, method, start = match.groups()
        known = _known_names(shell.user_ns.get(name), method)
        typed = len(start) - len(event.symbol)  # in a name with a space, IPython completes only the last word
        return [text[typed:] for text in known if text.startswith(start)]

    shell.set_hook("complete_command", complete, re_key=r".*\w\.\w+\(.*[\"'][^\"']*$")


def _known_names(owner: object, method: str) -> list[str]:
    import loadbook
    from loadbook.core.errors import UsageError
    from loadbook.notebook.run import Run, recorded_studies
    from loadbook.store.paths import project_layout

    if isinstance(owner, Run) and method in ("compare", "wide", "slowest", "zoom"):
        return owner.metrics
    if isinstance(owner, Run) and method in ("why", "raw", "without"):
        return list(owner.trials["trial"])
    if owner is not loadbook or method not in ("load", "history", "plan", "run", "ingest", "state", "pick"):
        return []
    try:
        layout = project_layout()
    except UsageError:
        return []
    files = {path.stem for path in layout.studies.glob("*.toml")} if method in ("plan", "run") else set()
    return sorted({*recorded_studies(layout)} | files)
