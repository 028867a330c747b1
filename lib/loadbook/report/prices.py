"""What a rate costs: the price of a treatment's hosts for every 1,000 requests/s, the rate's interval carried over.

Prices are those of the hosts file, kept in run.json; the drivers are the laboratory's own and cost nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, join_words, format_rounded
from loadbook.records.rundata import RunData
from loadbook.report.tables import DASH, Column, Table
from loadbook.report.tiers import treatment_hosts
from loadbook.stats.result import Analysis, Interval, AnalysisRow

PRICED_RATE_PER_S = 1000.0  # requests per second
PRICED_KINDS = ("baseline", "treatment")  # kinds of rows; checks are no offers
PRICES_HINT = "give each host its price_per_month, and the file its currency"


@dataclass(frozen=True)
class Price:
    """What one treatment costs: a month of all its hosts, and that for every 1,000 requests/s.

    `interval` comes from that of the treatment's change; the baseline has none. `ratio` is the price of 1,000
    requests/s as a multiple of the baseline's, with its interval. `is_upper_bound`: the rate is that which was offered.
    """

    per_month: float
    per_1000: float
    interval: Interval | None = None
    ratio: tuple[float, Interval] | None = None
    is_upper_bound: bool = False

    @property
    def text(self) -> str:
        """The price of 1,000 requests/s with its interval."""
        most = "at most " if self.is_upper_bound else ""
        return most + _value_with_interval(self.per_1000, self.interval)


@dataclass(frozen=True)
class Prices:
    """The prices of a run by treatment; `missing` are hosts and external services in use that have none."""

    currency: str
    by_treatment: Mapping[str, Price]
    missing: tuple[str, ...]

    @property
    def header(self) -> str:
        """The head of a column: the price of a month of hosts for every 1,000 requests/s."""
        return f"{self.currency or 'price'} per 1,000/s"


def compute_prices(data: RunData, analysis: Analysis, unsaturated: Sequence[str] = ()) -> Prices:
    """Return what every treatment of an analysis costs that has a rate and a price for each of its hosts.

    Parameters
    ----------
    unsaturated : treatments that served all of what was offered: they could have served more.
    """
    known = data.run_json.get("prices") or {}
    wanted = {row.treatment: _hosts_and_services(data, row.treatment) for row in analysis.rows if row.kind in PRICED_KINDS}
    given = known.get("hosts", {}) | {f"external {role}": p for role, p in known.get("external", {}).items()}
    missing = dict.fromkeys(part for parts in wanted.values() for part in parts if part not in given)
    months = {n: sum(given[p] for p in parts) for n, parts in wanted.items() if parts and set(parts) <= set(given)}
    base = analysis.row(analysis.baseline)
    found = {
        row.treatment: _treatment_price(row, base, months[row.treatment], months.get(base.treatment), row.treatment in unsaturated)
        for row in analysis.rows
        if row.treatment in months and base.median and get_metric(analysis.metric).unit == "1/s"
    }
    return Prices(known.get("currency", ""), {n: price for n, price in found.items() if price}, tuple(missing))


def _hosts_and_services(data: RunData, treatment: str) -> list[str]:
    """Return the hosts on which a treatment runs services, each once, and the external services that it uses."""
    study = data.study
    hosts = [alias for role in study.roles for alias in treatment_hosts(data, treatment, role)]
    outside = [f"external {role}" for role in study.roles if study.setting(treatment, role).external]
    return list(dict.fromkeys([*hosts, *outside]))


def _treatment_price(row: AnalysisRow, base: AnalysisRow, month: float, of_base: float | None, limited: bool) -> Price | None:
    rate = (base.median or 0.0) / PRICED_RATE_PER_S
    if row.kind == "baseline":
        return Price(month, month / rate, is_upper_bound=limited)
    found = row.verdict.comparison if row.verdict and row.verdict.kind != "invalid" else None
    if found is None or found.effect is None or found.ci95 is None:
        return None
    low, high = (1 / (1 + bound) for bound in reversed(found.ci95))
    middle, one = 1 / (1 + found.effect), month / rate
    month_ratio = month / of_base if of_base else None
    times = (month_ratio * middle, (month_ratio * low, month_ratio * high)) if month_ratio else None
    return Price(month, one * middle, (one * low, one * high), times, limited)


def price_sentence(found: Prices, analysis: Analysis, labels: Mapping[str, str]) -> str:
    """Return what a rate costs behind each balancer against the baseline, in one or two sentences."""
    own = found.by_treatment.get(analysis.baseline)
    compared = {r.treatment: found.by_treatment[r.treatment] for r in analysis.of_kind("treatment") if r.treatment in found.by_treatment}
    lacking = f"no price for {_join_few(found.missing)}" if found.missing else "nothing was compared"
    if own is None or not compared:
        return f"Not known: {lacking} in the hosts file ({PRICES_HINT})." if found.missing else f"Not known: {lacking}."
    unit = f"{NBSP}{found.currency}" if found.currency else ""
    best = min(compared, key=lambda name: compared[name].per_1000)
    price = compared[best]
    first = f"1,000 requests/s cost {own.text}{unit} a month with {labels[analysis.baseline]}"
    least = f"the least of the others is {labels[best]} with {price.text}{unit}"
    times = f", {_value_with_interval(*price.ratio)} times as much" if price.ratio and not price.is_upper_bound else ""
    more = f" Not known for the rest: {lacking} in the hosts file." if found.missing else ""
    return f"{first}; {least}{times}.{more}"


def price_table(found: Prices, analysis: Analysis, labels: Mapping[str, str]) -> Table:
    """Return what each treatment costs a month and for every 1,000 requests/s, the cheapest rate first."""
    columns = [Column("Treatment"), Column(f"Hosts, {found.currency or 'price'} a month", True),
               Column(found.header, True), Column(f"Times {labels[analysis.baseline]}", True)]  # fmt: skip
    order = sorted(found.by_treatment.items(), key=lambda item: item[1].per_1000)
    rows = [
        [labels[name], f"{price.per_month:,.6g}", price.text, _value_with_interval(*price.ratio) if price.ratio else DASH]
        for name, price in order
    ]
    return Table("Prices", columns, rows)


def _join_few(names: Sequence[str], most: int = 3) -> str:
    return join_words([*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])])


def _value_with_interval(value: float, bounds: Interval | None) -> str:
    """Return "36.0 (35.7 to 36.4)", rounded as the interval deserves, or three digits without one."""
    if bounds is None:
        return f"{value:.3g}" if value < 1000 else format_rounded(value)
    half = (bounds[1] - bounds[0]) / 2
    return f"{format_rounded(value, half)} ({format_rounded(bounds[0], half)} to {format_rounded(bounds[1], half)})"
