"""Loadbook: the laboratory notebook for web-server and load-balancer benchmarks.

Notebooks need nothing else than ``import loadbook as lb``. To explore: ``lb.studies()``, ``lb.load(study)`` and
``lb.pick()``. To run: ``lb.plan``, ``lb.run``, ``lb.ingest``, ``lb.state``. The pages of reports: ``lb.effects_page``
and its like. Each is imported only when it is used.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from loadbook.analyses import PAGES

__version__ = "0.1.0"

_VERBS = PAGES | {
    "check_parameters": "loadbook.report.parameters",
    "load": "loadbook.notebook.run",
    **dict.fromkeys(("history", "pick", "studies"), "loadbook.notebook.studies"),
    **dict.fromkeys(("ingest", "plan", "run", "state"), "loadbook.notebook.live_run"),
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
    # without the pages: each is called by one notebook
    return sorted([*(name for name in _VERBS if not name.endswith("_page")), "__version__"])


if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()) is not None:
    from loadbook.notebook import register_completion

    register_completion(_shell)
