"""Loadbook: the laboratory notebook for web-server and load-balancer benchmarks.

Notebooks need nothing else than ``import loadbook as lb``. To explore: ``lb.studies()``, ``lb.load(study)`` and
``lb.pick()``. To run: ``lb.plan``, ``lb.run``, ``lb.ingest``, ``lb.state``. The pages of reports: ``lb.effects_page``
and its like. Each is imported only when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadbook.explore.history import history as history
    from loadbook.explore.pick import pick as pick
    from loadbook.explore.run import load as load
    from loadbook.explore.running import ingest as ingest
    from loadbook.explore.running import plan as plan
    from loadbook.explore.running import run as run
    from loadbook.explore.running import state as state
    from loadbook.explore.studies import studies as studies
    from loadbook.report.backends import backends_page as backends_page
    from loadbook.report.balancers import balancers_page as balancers_page
    from loadbook.report.compare_runs import compare_runs_page as compare_runs_page
    from loadbook.report.effects import effects_page as effects_page
    from loadbook.report.factorial import factorial_page as factorial_page
    from loadbook.report.history import history_page as history_page
    from loadbook.report.laboratory import noise_page as noise_page
    from loadbook.report.page_size import page_size_page as page_size_page
    from loadbook.report.parameters import check_parameters as check_parameters
    from loadbook.report.quality import quality_page as quality_page
    from loadbook.report.resources import resources_page as resources_page

__version__ = "0.1.0"

_VERBS = {
    "backends_page": "loadbook.report.backends",
    "balancers_page": "loadbook.report.balancers",
    "check_parameters": "loadbook.report.parameters",
    "compare_runs_page": "loadbook.report.compare_runs",
    "effects_page": "loadbook.report.effects",
    "factorial_page": "loadbook.report.factorial",
    "history": "loadbook.explore.history",
    "history_page": "loadbook.report.history",
    "ingest": "loadbook.explore.running",
    "load": "loadbook.explore.run",
    "noise_page": "loadbook.report.laboratory",
    "page_size_page": "loadbook.report.page_size",
    "pick": "loadbook.explore.pick",
    "plan": "loadbook.explore.running",
    "quality_page": "loadbook.report.quality",
    "resources_page": "loadbook.report.resources",
    "run": "loadbook.explore.running",
    "state": "loadbook.explore.running",
    "studies": "loadbook.explore.studies",
}


def __getattr__(name: str) -> Any:
    """Import a verb when it is first used."""
    if name not in _VERBS:
        if name.startswith("_"):
            raise AttributeError(name)
        from loadbook.core.names import unknown_name_error

        raise unknown_name_error("verb", name, sorted(_VERBS), "in loadbook")
    return getattr(importlib.import_module(_VERBS[name]), name)


def __dir__() -> list[str]:
    # a page is what one notebook calls; what people look for is not among a dozen of them
    return sorted([*(name for name in _VERBS if not name.endswith("_page")), "__version__"])
