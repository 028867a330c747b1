"""Studies whose treatments ask for pages of different sizes: which factor sets the size, and who has which."""

from __future__ import annotations

from loadbook.design.study import PAGE_SIZE_VAR, Study


def page_size_factor(study: Study) -> str | None:
    """Return the name of the factor that sets the size of the page; None where all treatments have one size."""
    return next((n for n, f in study.factors.items() if f.of == "vars" and (f.var or n) == PAGE_SIZE_VAR), None)


def page_bytes(study: Study, treatment: str) -> int | None:
    """Return how many bytes the page of a treatment has by a factor; None where no factor sets it."""
    factor = page_size_factor(study)
    level = study.levels_of(treatment)[factor] if factor else None
    return level if type(level) is int else None


def first_same_page(study: Study, treatment: str) -> str:
    """Return the first arm that must answer as this one does, the baseline before all: one whose page is as large."""
    arms, size = [study.baseline, *study.treatments], page_bytes(study, treatment)
    return next(name for name in arms if page_bytes(study, name) == size)
