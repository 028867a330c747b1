"""Loadbook: the laboratory notebook for web-server and load-balancer benchmarks.

Notebooks need nothing else: ``import loadbook as lb``, then ``lb.load``, ``lb.plan``, ``lb.run``, ``lb.ingest``,
``lb.state`` and the pages ``lb.effects_page``, ``lb.noise_page`` and ``lb.quality_page``. Each is imported only
when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadbook.report.backends import backends_page as backends_page
    from loadbook.report.balancers import balancers_page as balancers_page
    from loadbook.report.effects import effects_page as effects_page
    from loadbook.report.factorial import factorial_page as factorial_page
    from loadbook.report.laboratory import noise_page as noise_page
    from loadbook.report.page import load as load
    from loadbook.report.page_size import page_size_page as page_size_page
    from loadbook.report.parameters import check_parameters as check_parameters
    from loadbook.report.quality import quality_page as quality_page
    from loadbook.report.resources import resources_page as resources_page
    from loadbook.report.running import ingest as ingest
    from loadbook.report.running import plan as plan
    from loadbook.report.running import run as run
    from loadbook.report.running import state as state

__version__ = "0.1.0"

_VERBS = {
    "backends_page": "loadbook.report.backends",
    "balancers_page": "loadbook.report.balancers",
    "check_parameters": "loadbook.report.parameters",
    "effects_page": "loadbook.report.effects",
    "factorial_page": "loadbook.report.factorial",
    "ingest": "loadbook.report.running",
    "load": "loadbook.report.page",
    "noise_page": "loadbook.report.laboratory",
    "page_size_page": "loadbook.report.page_size",
    "plan": "loadbook.report.running",
    "quality_page": "loadbook.report.quality",
    "resources_page": "loadbook.report.resources",
    "run": "loadbook.report.running",
    "state": "loadbook.report.running",
}


def __getattr__(name: str) -> Any:
    """Import a verb when it is first used."""
    if name not in _VERBS:
        raise AttributeError(f"loadbook has no {name!r}; it has {', '.join(sorted(_VERBS))}")
    return getattr(importlib.import_module(_VERBS[name]), name)


def __dir__() -> list[str]:
    return sorted([*_VERBS, "__version__"])
