"""What differs between the loads of the sides of a comparison of files, as far as the reports print it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from loadbook.analyses.compare_files.sides import RATES, Run, Side
from loadbook.core.units import join_words

OFFERED = ("offered_per_s", "value")
# rates of open loads that differ more are of different loads; a slow side starts as many requests as a fast one
LARGEST_RATE_RATIO = 1.05
MAX_SHOWN = 4  # values of one setting


def differences(sides: Sequence[Side]) -> Iterator[str]:
    """Yield what differs between the loads of runs that count: "connections 100 of A, 200 of B".

    Settings are compared where all runs print them; a rate is one of open loads.
    """
    for name in settings(sides):
        values = {side.name: list(dict.fromkeys(_load(run)[name] for run in side.counting)) for side in sides}
        if len({value for own in values.values() for value in own}) > 1:
            yield _text(name, values)
    rates = {side.name: [rate for run in side.counting if (rate := _rate(run))] for side in sides}
    known = [rate for own in rates.values() for rate in own]
    if known and max(known) > LARGEST_RATE_RATIO * min(known):
        spread = any(max(own) > LARGEST_RATE_RATIO * min(own) for own in rates.values() if own)
        texts = {
            name: [f"{value:,.4g}/s" for value in ((min(own), max(own)) if spread else (median(own),))]
            for name, own in rates.items()
            if own
        }
        yield _text("rate", {name: list(dict.fromkeys(own)) for name, own in texts.items()})


def settings(sides: Sequence[Side]) -> list[str]:
    """Return the names of the settings that every run that counts prints."""
    runs = [run for side in sides for run in side.counting]
    common = set.intersection(*(set(_load(run)) for run in runs)) if runs else set()
    return sorted(common)


def _text(name: str, values: dict[str, list[str]]) -> str:
    """Return a setting with its values by side."""
    texts = []
    for side, own in values.items():
        more = [f"{len(own) - MAX_SHOWN} more"] if len(own) > MAX_SHOWN else []
        texts.append(f"{join_words([*own[:MAX_SHOWN], *more])} of {side}")
    return f"{name} {', '.join(texts)}"


def _load(run: Run) -> dict[str, str]:
    return dict(run.report.parsed.load) if run.report.parsed else {}


def _rate(run: Run) -> float:
    """Return the rate (1/s) at which the requests of an open load started; 0 if it is not known, or the load closed."""
    if not run.is_open:
        return 0.0
    keys = (OFFERED, *reversed(RATES))  # attempts if there are some, then requests
    return next((run.values[key] for key in keys if key in run.values), 0.0)
