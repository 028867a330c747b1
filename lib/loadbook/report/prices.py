"""Prices of treatments: of their hosts per month, of 1,000 requests/s, and of a million requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, format_rounded, join_words, shorten_list
from loadbook.stats.results import Analysis, AnalysisRow, Interval
from loadbook.store.run_record import RecordedPrices

if TYPE_CHECKING:
    from loadbook.store.tables import RunData

PRICED_RATE_PER_S = 1000.0  # requests per second
MILLIONS_A_MONTH = 1e-6 * PRICED_RATE_PER_S * 86_400 * 365.25 / 12  # million requests at that rate
PRICES_HINT = "give each host its price_per_month, and the file its currency"


@dataclass(frozen=True)
class Price:
    """The price of one treatment: of all its hosts per month, and the same divided by its rate in 1,000 requests/s.

    `interval` is that of `per_1000`, by the interval of the treatment's change; the baseline has none. `ratio` is the
    price of 1,000 requests/s relative to the baseline's, with its interval. `is_upper_bound`: the offered load
    limited the rate.
    """

    per_month: float
    per_1000: float
    interval: Interval | None = None
    ratio: tuple[float, Interval] | None = None
    is_upper_bound: bool = False

    @property
    def text(self) -> str:
        """The price of 1,000 requests/s with its interval, as text."""
        most = "at most " if self.is_upper_bound else ""
        return most + value_with_interval(self.per_1000, self.interval)

    @property
    def per_million_text(self) -> str:
        """The price of a million requests, if the hosts serve this rate all month, with its interval, as text."""
        values = [price / MILLIONS_A_MONTH for price in (self.per_1000, *(self.interval or ()))]
        value, *bounds = (f"{price:.3g}" for price in values)  # often less than a cent
        return f"{value} ({' to '.join(bounds)})" if bounds else value


@dataclass(frozen=True)
class Prices:
    """The prices of a run by treatment; `missing` lists the hosts and external services in use that have no price."""

    currency: str
    by_treatment: Mapping[str, Price]
    missing: tuple[str, ...]

    @property
    def header(self) -> str:
        """The head of a table column: price of the hosts per month for every 1,000 requests/s."""
        return f"{self.currency or 'price'} per 1,000/s"


def compute_prices(data: RunData, analysis: Analysis, unsaturated: Sequence[str] = ()) -> Prices:
    """Return the price of every treatment that has a measured rate and whose hosts all have a price.

    There are none unless the metric of `analysis` is a rate (1/s). Prices come from the hosts file, as recorded in
    run.json; drivers cost nothing. `unsaturated` treatments served the whole offered load, so they could have served
    more.
    """
    recorded, study = data.run_record.prices or RecordedPrices(), data.study
    given = recorded.hosts | {f"external {role}": price for role, price in recorded.external.items()}
    months, missing = dict[str, float](), dict[str, None]()
    for row in analysis.of_kind("baseline", "treatment"):
        hosts = [alias for role in study.roles for alias in data.hosts_of(row.treatment, role)]
        external = [f"external {role}" for role in study.roles if study.setting(row.treatment, role).external]
        parts = dict.fromkeys([*hosts, *external])
        missing |= {part: None for part in parts if part not in given}
        if parts and set(parts) <= set(given):
            months[row.treatment] = sum(given[part] for part in parts)
    prices, base = dict[str, Price](), analysis.row(analysis.baseline)
    if base.median and get_metric(analysis.metric).unit == "1/s":
        for row in (row for row in analysis.rows if row.treatment in months):
            month, base_month = months[row.treatment], months.get(base.treatment)
            price = _treatment_price(row, base.median, month, base_month, row.treatment in unsaturated)
            prices |= {row.treatment: price} if price else {}
    return Prices(recorded.currency, prices, tuple(missing))


def _treatment_price(
    row: AnalysisRow, base_rate: float, month: float, base_month: float | None, is_upper_bound: bool
) -> Price | None:
    price = month / (base_rate / PRICED_RATE_PER_S)
    if row.kind == "baseline":
        return Price(month, price, is_upper_bound=is_upper_bound)
    comparison = row.verdict.comparison if row.verdict and row.verdict.kind != "invalid" else None
    if comparison is None or comparison.effect is None or comparison.ci95 is None:
        return None
    low, middle, high = (1 / (1 + ratio) for ratio in (comparison.ci95[1], comparison.effect, comparison.ci95[0]))
    times = month / base_month if base_month else None
    ratio = (times * middle, (times * low, times * high)) if times else None
    return Price(month, price * middle, (price * low, price * high), ratio, is_upper_bound)


def price_sentence(prices: Prices, analysis: Analysis, labels: Mapping[str, str]) -> str:
    """Return the price of 1,000 requests/s a month with the baseline and with the cheapest other treatment, as text.

    If one of the two prices is missing, the text is "Not known" and the reason.
    """
    own = prices.by_treatment.get(analysis.baseline)
    compared = [r.treatment for r in analysis.of_kind("treatment") if r.treatment in prices.by_treatment]
    missing = f"no price for {join_words(shorten_list(prices.missing, 3))}"
    if own is None or not compared:
        reason = f"{missing} in the hosts file ({PRICES_HINT})" if prices.missing else "nothing was compared"
        return f"Not known: {reason}."
    unit = f"{NBSP}{prices.currency}" if prices.currency else ""
    best = min(compared, key=lambda name: prices.by_treatment[name].per_1000)
    price = prices.by_treatment[best]
    first = f"1,000 requests/s cost {own.text}{unit} a month with {labels[analysis.baseline]}"
    least = f"the least of the others is {labels[best]} with {price.text}{unit}"
    times = f", {value_with_interval(*price.ratio)} times as much" if price.ratio and not price.is_upper_bound else ""
    more = f" Not known for the rest: {missing} in the hosts file." if prices.missing else ""
    return f"{first}; {least}{times}.{more}"


def value_with_interval(value: float, bounds: Interval | None) -> str:
    """Return "36.0 (35.7 to 36.4)", rounded by the interval's width; without an interval three significant digits."""
    if bounds is None:
        return f"{value:.3g}" if value < 1000 else format_rounded(value)
    half = (bounds[1] - bounds[0]) / 2
    return f"{format_rounded(value, half)} ({format_rounded(bounds[0], half)} to {format_rounded(bounds[1], half)})"
