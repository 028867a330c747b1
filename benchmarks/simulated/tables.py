"""Results of the validation as tables: for a terminal, and for docs/reference/simulations.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from noise import IN_WORDS
from simulated import (
    capacity,
    certified_rates,
    controls,
    families,
    harness,
    interleaved,
    request_errors,
    resolution,
    stopping,
    two_arms,
    two_runs,
    unpaired,
    within_trial,
)
from simulated.check import Result

NAMED = 3  # cases of one claim and limit that are listed by name
MODULES = (
    two_arms,
    interleaved,
    capacity,
    certified_rates,
    families,
    two_runs,
    unpaired,
    request_errors,
    stopping,
    within_trial,
    harness,
    resolution,
    controls,
)


def in_order(results: Iterable[Result]) -> list[Result]:
    """Return results in the order in which the modules list their rows, the rows of one claim together."""
    rows = [row for module in MODULES for simulation in module.simulations() for row in simulation.rows]
    claims = list(dict.fromkeys(row.claim for row in rows))
    place = {(row.claim, row.case): k for k, row in enumerate(rows)}
    return sorted(results, key=lambda r: (claims.index(r.row.claim), place[r.row.claim, r.row.case]))


def cases(results: Iterable[Result]) -> str:
    """Return every row."""
    return _table(
        [(f"{r.row.claim}: {r.row.case}", r.row.limits, f"{r.value:.1f}", _ok([r])) for r in in_order(results)]
    )


def summary(results: Iterable[Result]) -> str:
    """Return one line for every claim and limits, and for every control."""
    return _table(_lines(results))


def markdown(results: Sequence[Result]) -> str:
    """Return the tables of docs/reference/simulations.md; the first has the noises of which all figures are there."""
    return "\n\n".join([_noises(results), _markdown(("claim", "limits", "measured", ""), _lines(results))])


def _lines(results: Iterable[Result]) -> list[tuple[str, str, str, str]]:
    """Return claim, limits, measured, ok. Of claims that have limits, the cases without are left out."""
    ordered = in_order(results)
    limited = {r.row.claim for r in ordered if r.row.limited}
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in ordered:
        row = result.row
        if row.limited or row.claim not in limited:
            one = row.case if row.claim == controls.CONTROL else row.limits
            groups.setdefault((row.claim, one), []).append(result)
    return [(_name(found), found[0].row.limits, _range(found), _ok(found)) for found in groups.values()]


def _name(found: Sequence[Result]) -> str:
    few = "; ".join(r.row.case for r in found) if len(found) <= NAMED else ""
    return f"{found[0].row.claim}: {few}" if few else f"{found[0].row.claim} ({len(found)} cases)"


def _range(found: Sequence[Result]) -> str:
    low, high = min(r.value for r in found), max(r.value for r in found)
    return f"{low:.1f}" if len(found) == 1 else f"{low:.1f} to {high:.1f}"


def _ok(found: Sequence[Result]) -> str:
    if not found[0].row.limited:
        return ""
    return "ok" if all(r.ok for r in found) else "OUTSIDE"


def _table(lines: Sequence[tuple[str, str, str, str]]) -> str:
    titled = [("row", "limits", "measured", ""), *lines]
    widths = [max(len(line[k]) for line in titled) for k in range(3)]
    return "\n".join("  ".join([*(c.ljust(w) for c, w in zip(line, widths, strict=False)), line[3]]) for line in titled)


def _markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def _noises(results: Sequence[Result]) -> str:
    value = {(r.row.claim, r.row.case): f"{r.value:.1f}" for r in results}
    few, many, found, gain = two_arms.FEW_BLOCKS, two_arms.FALSE_ALARMS, two_arms.POWER, two_arms.GAIN
    columns = {
        "false alarms, n = 6 / 10 / 20": ((few, 6), (many, 10), (many, 20)),
        "a true 2 % found, n = 10 / 20": ((found, 10), (found, 20)),
        "points above no blocks, n = 10": ((gain, 10),),
    }
    wanted = {noise: [[(c, f"{noise}, n={n}") for c, n in cells] for cells in columns.values()] for noise in IN_WORDS}
    known = {noise: cells for noise, cells in wanted.items() if all(key in value for cell in cells for key in cell)}
    lines = [
        (f"{IN_WORDS[n]} (`{n}`)", *(" / ".join(value[key] for key in cell) for cell in cells))
        for n, cells in known.items()
    ]
    return _markdown(("noise", *columns), lines)
