"""Every figure of a run with simulated data in the cases that strain it, and what must hold of each drawing."""

from __future__ import annotations

import re
from typing import Any

import matplotlib.pyplot as plt

from figure_legibility import must_be_legible
from loadbook.report.figures import base, figure_class
from mock_analysis import CASES, Mock, assessed, mock

HOST_METRICS = ("host_metrics", "trial_overlay", "cores")
FIGURES = ("effects", "order", "paired_blocks", "errors", "latency", "validity", "claims", *HOST_METRICS)
FEWER = ("plain", "all_invalid", "one_treatment", "sixteen", "long_names", "japanese", "five_blocks", "many_excluded")
HARD = {
    **dict.fromkeys(("effects", "order"), CASES),
    **dict.fromkeys(FIGURES[2:], FEWER),
    **dict.fromkeys((*HOST_METRICS, "validity"), (*FEWER, "no_monitor")),
}
# drawn by the tests that need only Python; tests/live/report draws the others, too
STRAINS_MOST = "sixteen"
PAIRS = [(figure, case) for figure in FIGURES for case in HARD[figure]]
FORBIDDEN = re.compile(r"significant|\bsame\b|proves?\b|no effect|\bnan\b|\bNone of\b(?! the)", re.IGNORECASE)


def data_of(figure: str, m: Mock) -> tuple[Any, ...]:
    """Return the arguments of a figure."""
    first = next(r.treatment for r in m.analysis.rows if r.kind == "treatment")
    return {
        "effects": (m.analysis,),
        "order": (m.analysis, m.values, m.reasons),
        "paired_blocks": (m.analysis, first, m.values),
        "errors": (m.analysis, m.errors, m.requests),
        "latency": (m.analysis, m.panels),
        "host_metrics": (m.traces, m.trials, m.hosts, m.labels),
        "trial_overlay": (m.traces, m.trials, m.hosts),
        "cores": (m.traces, m.trials, m.hosts, m.labels, "www"),
        "validity": (m.trials, m.problems, m.titles, m.labels),
        "claims": (assessed(m), m.analysis),
    }[figure]


def make(figure: str, case: str) -> Any:
    """Return a figure of a case; it is not drawn yet."""
    return figure_class(figure)(*data_of(figure, mock(case)))


def must_be_complete(figure: str, case: str) -> None:
    """Draw a figure once: its texts are legible and do not overlap, its captions are sentences and match the data."""
    made, open_figures = make(figure, case), plt.get_fignums()
    drawn = made.draw()
    assert plt.get_fignums() == open_figures  # of pyplot, which would keep them
    assert drawn.get_figwidth() == base.WIDTH_IN
    must_be_legible(drawn)
    assert made.caption.endswith(".") and len(made.caption) > 15
    assert made.help.endswith(".")
    assert len(made.alt_text) > 40 and made.caption in made.alt_text
    own = [w for label in mock(case).labels.values() for w in label.split()]
    for text in (made.caption, made.help, made.alt_text):
        printed = FORBIDDEN.search(text)
        assert printed is None or printed.group() in own, text
