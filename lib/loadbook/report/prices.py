"""What a rate costs: the price of a treatment's hosts for every 1,000 requests/s, the rate's interval carried over.

Prices are those of the hosts file, kept in run.json; the drivers are the laboratory's own and cost nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import NBSP, joined, level
from loadbook.records.rundata import RunData
from loadbook.report.tables import DASH, Column, Table
from loadbook.report.tiers import hosts_of
from loadbook.stats.result import Analysis, Interval, Row

PER = 1000.0  # requests per second
PRICED = ("baseline", "treatment")  # kinds of rows; checks are no offers
HOW = "give each host its price_per_month, and the file its currency"


@dataclass(frozen=True)
class Price:
    """What one treatment costs: a month of all its hosts, and that for every 1,000 requests/s.

    `bounds` come from the interval of the treatment's change; the baseline has none. `times` is the price of 1,000
    requests/s as a multiple of the baseline's, with its interval. `at_most`: the rate is that which was offered.
    """

    month: float
    thousand: float
    bounds: Interval | None = None
    times: tuple[float, Interval] | None = None
    at_most: bool = False

    @property
    def text(self) -> str:
        """The price of 1,000 requests/s with its interval."""
        most = "at most " if self.at_most else ""
        return most + _between(self.thousand, self.bounds)


@dataclass(frozen=True)
class Prices:
    """The prices of a run by treatment; `missing` are hosts and external services in use that have none."""

    currency: str
    of: Mapping[str, Price]
    missing: tuple[str, ...]

    @property
    def head(self) -> str:
        """The head of a column: the price of a month of hosts for every 1,000 requests/s."""
        return f"{self.currency or 'price'} per 1,000/s"


def prices(data: RunData, analysis: Analysis, limited: Sequence[str] = ()) -> Prices:
    """Return what every treatment of an analysis costs that has a rate and a price for each of its hosts.

    Parameters
    ----------
    limited : treatments that served all of what was offered: they could have served more.
    """
    known = data.run_json.get("prices") or {}
    wanted = {row.treatment: _parts(data, row.treatment) for row in analysis.rows if row.kind in PRICED}
    given = known.get("hosts", {}) | {f"external {role}": p for role, p in known.get("external", {}).items()}
    missing = dict.fromkeys(part for parts in wanted.values() for part in parts if part not in given)
    months = {n: sum(given[p] for p in parts) for n, parts in wanted.items() if parts and set(parts) <= set(given)}
    base = analysis.row(analysis.baseline)
    found = {
        row.treatment: _price(row, base, months[row.treatment], months.get(base.treatment), row.treatment in limited)
        for row in analysis.rows
        if row.treatment in months and base.level and metric_of(analysis.metric).unit == "1/s"
    }
    return Prices(known.get("currency", ""), {n: price for n, price in found.items() if price}, tuple(missing))


def _parts(data: RunData, treatment: str) -> list[str]:
    """Return the hosts on which a treatment runs services, each once, and the external services that it uses."""
    study = data.study
    hosts = [alias for role in study.roles for alias in hosts_of(data, treatment, role)]
    outside = [f"external {role}" for role in study.roles if study.setting(treatment, role).external]
    return list(dict.fromkeys([*hosts, *outside]))


def _price(row: Row, base: Row, month: float, of_base: float | None, limited: bool) -> Price | None:
    rate = (base.level or 0.0) / PER
    if row.kind == "baseline":
        return Price(month, month / rate, at_most=limited)
    found = row.verdict.comparison if row.verdict and row.verdict.kind != "invalid" else None
    if found is None or found.effect is None or found.ci95 is None:
        return None
    low, high = (1 / (1 + bound) for bound in reversed(found.ci95))
    middle, one = 1 / (1 + found.effect), month / rate
    more = month / of_base if of_base else None
    times = (more * middle, (more * low, more * high)) if more else None
    return Price(month, one * middle, (one * low, one * high), times, limited)


def said(found: Prices, analysis: Analysis, labels: Mapping[str, str]) -> str:
    """Return what a rate costs behind each balancer against the baseline, in one or two sentences."""
    own = found.of.get(analysis.baseline)
    compared = {r.treatment: found.of[r.treatment] for r in analysis.of_kind("treatment") if r.treatment in found.of}
    lacking = f"no price for {_few(found.missing)}" if found.missing else "nothing was compared"
    if own is None or not compared:
        return f"Not known: {lacking} in the hosts file ({HOW})." if found.missing else f"Not known: {lacking}."
    unit = f"{NBSP}{found.currency}" if found.currency else ""
    best = min(compared, key=lambda name: compared[name].thousand)
    price = compared[best]
    first = f"1,000 requests/s cost {own.text}{unit} a month with {labels[analysis.baseline]}"
    least = f"the least of the others is {labels[best]} with {price.text}{unit}"
    times = f", {_between(*price.times)} times as much" if price.times and not price.at_most else ""
    more = f" Not known for the rest: {lacking} in the hosts file." if found.missing else ""
    return f"{first}; {least}{times}.{more}"


def table(found: Prices, analysis: Analysis, labels: Mapping[str, str]) -> Table:
    """Return what each treatment costs a month and for every 1,000 requests/s, the cheapest rate first."""
    columns = [Column("Treatment"), Column(f"Hosts, {found.currency or 'price'} a month", True),
               Column(found.head, True), Column(f"Times {labels[analysis.baseline]}", True)]  # fmt: skip
    order = sorted(found.of.items(), key=lambda item: item[1].thousand)
    rows = [
        [labels[name], f"{price.month:,.6g}", price.text, _between(*price.times) if price.times else DASH]
        for name, price in order
    ]
    return Table("Prices", columns, rows)


def _few(names: Sequence[str], most: int = 3) -> str:
    return joined([*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])])


def _between(value: float, bounds: Interval | None) -> str:
    """Return "36.0 (35.7 to 36.4)", rounded as the interval deserves, or three digits without one."""
    if bounds is None:
        return f"{value:.3g}" if value < 1000 else level(value)
    half = (bounds[1] - bounds[0]) / 2
    return f"{level(value, half)} ({level(bounds[0], half)} to {level(bounds[1], half)})"
