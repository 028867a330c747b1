"""Loadbook: the laboratory notebook for web-server and load-balancer benchmarks.

Notebooks need nothing else than ``import loadbook as lb``. To explore: ``lb.studies()``, ``lb.load(study)`` and
``lb.pick()``. To run: ``lb.plan``, ``lb.run``, ``lb.ingest``, ``lb.state``. The pages of reports: ``lb.effects_page``
and its like. Each is imported only when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from loadbook.analyses import PAGES

if TYPE_CHECKING:
    from loadbook.notebook.live_run import ingest, plan, run, state
    from loadbook.notebook.run import load
    from loadbook.notebook.studies import history, pick, studies
    from loadbook.report.notebooks import check_parameters

__version__ = "0.1.0"

_VERBS = PAGES | {
    "check_parameters": "loadbook.report.notebooks",
    "history": "loadbook.notebook.studies",
    "ingest": "loadbook.notebook.live_run",
    "load": "loadbook.notebook.run",
    "pick": "loadbook.notebook.studies",
    "plan": "loadbook.notebook.live_run",
    "run": "loadbook.notebook.live_run",
    "state": "loadbook.notebook.live_run",
    "studies": "loadbook.notebook.studies",
}


def __getattr__(name: str) -> Any:
    """Import a verb when it is first used."""
    if name not in _VERBS:
        if name.startswith("_"):
            raise AttributeError(name)
        from loadbook.core.errors import unknown_name_error

        raise unknown_name_error("verb", name, sorted(_VERBS), "in loadbook")
    return getattr(importlib.import_module(_VERBS[name]), name)


def __dir__() -> list[str]:
    # a page is what one notebook calls; what people look for is not among a dozen of them
    return sorted([*(name for name in _VERBS if not name.endswith("_page")), "__version__"])
