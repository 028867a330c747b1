"""Sentences about page sizes: dominant cost, limiting resource, size from which on the tiers are equivalent."""

from __future__ import annotations

import math
from collections import Counter

from loadbook.analyses.page_size.compute import Estimate, PageSizeResult, TwoRegimeCurve
from loadbook.core.units import NBSP, decimals_for_half_width, format_percent, pluralize
from loadbook.stats.compare import MIN_BLOCKS
from loadbook.stats.saturation import BOTTLENECK_NAMES
from loadbook.stats.text import margin_text

NOT_KNOWN = "not known"
MISFIT = 0.10  # relative deviation beyond which a curve is called too simple


def size_text(size_b: float) -> str:
    """Return a page size as text: 128 B, 2 KiB, 61 KiB, 1.4 MiB; two or three digits unless a whole number."""
    for unit, factor in (("B", 1), ("KiB", 1024), ("MiB", 1024**2), ("GiB", 1024**3)):
        value = size_b / factor
        if value < 1000 or unit == "GiB":
            digits = 0 if value >= 10 or value == int(value) else 1
            return f"{value:,.{digits}f}{NBSP}{unit}"
    raise AssertionError


def tick_text(size_b: float) -> str:
    """Return a page size as short text for an axis: 128 B, 2 K, 512 K, 1 M."""
    return size_text(size_b).replace("iB", "")


def bandwidth_text(bytes_per_s: float) -> str:
    """Return bytes per second as bits per second with decimal prefixes: 912 Mbit/s, 8.1 Gbit/s."""
    return _in_unit(bytes_per_s, bandwidth_unit(bytes_per_s))


def bandwidth_unit(bytes_per_s: float) -> tuple[float, str]:
    """Return (bytes per second in one unit, name of the unit): Mbit/s or Gbit/s."""
    return (125e6, "Gbit/s") if bytes_per_s >= 125e6 else (125e3, "Mbit/s")


def cost_text(estimate: Estimate, unit: float) -> str:
    """Return a quantity divided by `unit` with its interval, for a table cell: 0.51 (0.49 to 0.53)."""
    value, (low, high) = estimate.value / unit, (bound / unit for bound in estimate.interval)
    digits = decimals_for_half_width((high - low) / 2)
    return f"{value:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def knee_text(curve: TwoRegimeCurve, tick: bool = False) -> str:
    """Return the knee with its interval, "61 KiB (55 to 68 KiB)"; "beyond 410 KiB" or "below 2 KiB" if outside.

    `tick`: with short units, "61 K".
    """
    to_text = tick_text if tick else size_text
    low, high = (to_text(bound) for bound in curve.knee_b.interval)
    if curve.visible_regime == "request":
        return f"beyond {to_text(min(curve.knee_b.interval[0], curve.sizes_b[-1]))}"
    if curve.visible_regime == "byte":
        return f"below {to_text(max(curve.knee_b.interval[1], curve.sizes_b[0]))}"
    return f"{to_text(curve.knee_b.value)} ({low} to {high})"


def curve_sentence(curve: TwoRegimeCurve | str) -> str:
    """Return the text on the regimes of a curve that follows the series' name; the reason if there is no curve."""
    if isinstance(curve, str):
        return f": no curve: {curve}."
    sizes, (low_b, high_b) = curve.sizes_b, curve.knee_b.interval
    evidence = f"{pluralize(curve.blocks, 'block')}.{misfit_sentence(curve)}"
    if curve.visible_regime == "request":
        least, last = size_text(min(low_b, sizes[-1])), size_text(sizes[-1])
        return (
            f": the cost per request rules; both costs are equal beyond {least}, if at all "
            f"(sizes up to {last}), {evidence}"
        )
    ceiling = curve.ceiling_bytes_per_s
    unit = bandwidth_unit(ceiling.value)
    low, high = (_number_in_unit(bound, unit) for bound in ceiling.interval)
    approach = f"it approaches {_in_unit(ceiling.value, unit)} ({low} to {high}), {evidence}"
    if curve.visible_regime == "byte":
        return f": the cost per byte rules from {size_text(sizes[0])} on; {approach}"
    level, bounds = f"{curve.level * 100:g}{NBSP}%", f"{size_text(low_b)} to {size_text(high_b)}"
    knee = f"from {size_text(curve.knee_b.value)} on ({level} interval {bounds})"
    return f": {knee} bytes cost more than the request; {approach}"


def curve_sentences(result: PageSizeResult) -> list[str]:
    """Return a sentence per series on the regimes of its curve."""
    return [f"{name}{curve_sentence(fit)}" for name, fit in result.fits.items()]


def misfit_sentence(curve: TwoRegimeCurve) -> str:
    """Return " " and a sentence on the largest significant deviation from the curve; "" if none is above 10 %."""
    off = {
        size: misfit
        for size, misfit in curve.misfits.items()
        if not misfit.interval[0] <= 1 <= misfit.interval[1] and abs(math.log(misfit.value)) > math.log1p(MISFIT)
    }
    if not off:
        return ""
    size = max(off, key=lambda s: abs(math.log(off[s].value)))
    misfit_text = f"measured {format_percent(off[size].value - 1, 0)} beside it at {size_text(size)}"
    return f" The curve is too simple here ({misfit_text}): read its costs as a summary."


def largest_misfit_text(curve: TwoRegimeCurve) -> str:
    """Return the largest deviation of a size's mean rate from the curve, with the size, as text."""
    size = max(curve.misfits, key=lambda s: abs(math.log(curve.misfits[s].value)))
    return f"{format_percent(curve.misfits[size].value - 1, 0)} at {size_text(size)}"


def headline(result: PageSizeResult) -> str:
    """Return one sentence that answers "from which page size on is the network the limit?"."""
    series = result.series
    if not result.bottlenecks:
        return "Not known what limits: no monitor recorded anything."
    if not result.measured_sizes_b:
        return f"No answer: at no size do {MIN_BLOCKS} trials count."
    sizes = {one.name: result.network_limited_from(one) for one in series}
    limited_from = {name: size for name, size in sizes.items() if size is not None}
    if not limited_from and result.link_bytes_per_s is None:
        return f"Not known if the network is the limit, as no link’s rate is known{_other_limit_text(result)}."
    if not limited_from:
        last = size_text(result.measured_sizes_b[-1])
        return f"At no size up to {last} is the network the limit{_other_limit_text(result)}."
    least, most = min(limited_from.values()), max(limited_from.values())
    first = {name for name, size in limited_from.items() if size == least}
    sentence = f"From {size_text(least)} on the network is the limit"
    if len(first) == len(series):
        return f"{sentence}."
    sentence += f" ({_common_name(result, first)})"
    if most > least:
        sentence += f"; for others from {size_text(most)} on at the latest"
    if len(limited_from) < len(series):
        sentence += f"; never for {len(series) - len(limited_from)} of {len(series)} curves"
    return f"{sentence}."


def bandwidth_headline(result: PageSizeResult) -> str:
    """Return the sentence on the highest bandwidth, with its share of the link's capacity if that is known."""
    median_rate = result.values[result.values["valid"]].groupby("treatment")["value"].median()
    flows = [median_rate[arm] * size for arm, size in result.size_by_arm.items() if arm in median_rate.index]
    if not flows:
        return "Not known: no trial counts."
    most = max(flows)
    sentence = f"At most {bandwidth_text(most)} of pages (median over trials of the best point)"
    link = result.link_bytes_per_s
    return f"{sentence}, {format_percent(most / link, 0, signed=False)} of the link." if link else f"{sentence}."


def network_limit_text(result: PageSizeResult) -> str:
    """Return the answer as a short text for the index page: "network", "not the network" or "not known"."""
    if not result.bottlenecks or not result.measured_sizes_b:
        return NOT_KNOWN
    if any(result.network_limited_from(series) for series in result.series):
        return "network"
    return NOT_KNOWN if result.link_bytes_per_s is None else "not the network"


def _common_name(result: PageSizeResult, names: set[str]) -> str:
    """Return the part of the name that only these series have; if there is none, how many they are."""
    names_by_part: dict[str, set[str]] = {}
    for series in result.series:
        for part in series.name.split(", "):
            names_by_part.setdefault(part, set()).add(series.name)
    shared = next((part for part, own in names_by_part.items() if own == names), None)
    return shared or (next(iter(names)) if len(names) == 1 else f"{len(names)} curves")


def _other_limit_text(result: PageSizeResult) -> str:
    """Return a text on the resource other than the network that limits most points."""
    arms = [arm for arm in result.size_by_arm if arm in result.bottlenecks]
    counts = Counter(letter for arm in arms if (letter := result.bottlenecks[arm]))
    if not counts:
        return ": the services alone filled no CPU"
    letter, number = counts.most_common(1)[0]
    return f": the {BOTTLENECK_NAMES[letter]} is full at {number} of {len(arms)} points"


def supporting_text(result: PageSizeResult) -> str:
    """Return one sentence on the knees of all curves."""
    both = [curve for curve in result.curves.values() if curve.visible_regime == "both"]
    if not both:
        return "No curve shows both costs within the sizes measured."
    knees = sorted(both, key=lambda curve: curve.knee_b.value)
    low, high = size_text(knees[0].knee_b.interval[0]), size_text(knees[-1].knee_b.interval[1])
    of = "" if len(both) == len(result.series) else f" on {len(both)} of {len(result.series)} curves"
    return f"A request costs as much as its bytes at {low} to {high}{of} ({both[0].level * 100:g}{NBSP}% intervals)."


def tier_sentences(result: PageSizeResult) -> list[str]:
    """Return a sentence per front end on the size from which on the tiers are equivalent; none without two tiers."""
    if result.tiers is None:
        return []
    (first, second), margin, sentences = result.tiers.names, margin_text(result.margin), []
    for pair in result.tiers.pairs:
        size, largest = pair.converge_from_b, size_text(max(pair.verdicts)) if pair.verdicts else "any size"
        text = f"{second} and {first} are not shown to be within {margin} at {largest}."
        if size is not None:
            text = f"from {size_text(size)} on no difference between {second} and {first} larger than {margin}."
        sentences.append(f"{pair.name or 'both tiers'}: {text}")
    return sentences


def _in_unit(bytes_per_s: float, unit: tuple[float, str]) -> str:
    return f"{_number_in_unit(bytes_per_s, unit)}{NBSP}{unit[1]}"


def _number_in_unit(bytes_per_s: float, unit: tuple[float, str]) -> str:
    value = bytes_per_s / unit[0]
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"
