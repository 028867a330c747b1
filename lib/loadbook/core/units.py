"""Converts text strictly to numbers in base units, and numbers to text; the only module that knows unit prefixes.

Base units are s, B, 1/s, B/s and 1. An unknown suffix is an error; a parser that just drops letters would read 1.2s,
1.2ms and 1.2k all as 1.2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

MINUS, NBSP = "\u2212", "\u00a0"
TIME_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
COUNT_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BYTE_UNITS = {"B": 1.0, "KB": 1024.0, "MB": 1024.0**2, "GB": 1024.0**3, "TB": 1024.0**4}

_NUMBER = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<suffix>[A-Za-z]*)\Z")


def parse_quantity(text: str, units: dict[str, float]) -> float:
    """Return `text` (a plain decimal number and a suffix) in base units; ValueError for other texts.

    `units` maps each suffix to its factor, as `TIME_UNITS_S` does.
    """
    match = _NUMBER.match(text.strip())
    if not match or match["suffix"] not in units:
        raise ValueError(f"{text!r} is not a number with one of the units {sorted(units)}")
    return float(match["number"]) * units[match["suffix"]]


PERCENT = f"{NBSP}%"


def format_percent(ratio_minus_1: float, decimals: int = 1, signed: bool = True, unit: str = PERCENT) -> str:
    """Return a ratio minus 1 as percent, with U+2212 as minus sign and a no-break space before the percent sign.

    `unit` is what follows the number: "" in columns whose header has the sign.
    """
    value = round(ratio_minus_1 * 100, decimals) + 0.0
    sign = MINUS if value < 0 else ("+" if signed and value > 0 else "")
    return f"{sign}{format_fixed(abs(value), decimals)}{unit}"


def format_percent_range(bounds: Iterable[float], decimals: int = 1, signed: bool = True, unit: str = PERCENT) -> str:
    """Return two ratios minus 1 as a range such as "−5 to +2 %"; parameters as of `format_percent`."""
    low, high = bounds
    return f"{format_percent(low, decimals, signed, '')} to {format_percent(high, decimals, signed, unit)}"


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Return words as a list in text: "a", "a and b" or "a, b and c"."""
    return ", ".join(words[:-1]) + f" {last} {words[-1]}" if len(words) > 1 else "".join(words)


def pluralize(number: int, singular: str, plural: str | None = None) -> str:
    """Return number and noun: "1 trial" or "12 trials"."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def shorten_list(names: Sequence[str], most: int) -> list[str]:
    """Return the first `most` names and a last entry such as "4 more"; all names if only one would be left out."""
    return list(names) if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} more"]


def and_more(count: int, shown: int) -> str:
    """Return "and 4 more" for the items that a list of `shown` out of `count` leaves out; "" if it leaves out none."""
    return f"and {count - shown} more" if count > shown else ""


def first_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return the first `most` lines, and "and 4 more" if there are others."""
    return [*lines[:most], *filter(None, [and_more(len(lines), most)])]


def first_names(names: Sequence[str], most: int) -> str:
    """Return the first `most` names, and how many more there are: "a, b and 4 more"."""
    return " ".join(filter(None, [", ".join(names[:most]), and_more(len(names), most)]))


def format_fixed(value: float, decimals: int) -> str:
    """Return a number with this many decimals; from a million on with three significant digits: "1.23e+06"."""
    return f"{value:.{decimals}f}" if abs(value) < 1e6 else f"{value:.2e}"


def decimals_for_half_width(half_width: float) -> int:
    """Return the number of decimals for a value whose interval has this half-width.

    The last decimal is the half-width's second significant digit if its first is 1 or 2, else its first; at least 0.
    For a half-width that is 0 or not finite the number is 1.
    """
    if not math.isfinite(half_width) or half_width <= 0:
        return 1
    exponent = math.floor(math.log10(half_width))
    first = int(half_width / 10**exponent + 1e-9)
    return max(0, -exponent + (1 if first <= 2 else 0))


def format_duration(value_s: float) -> str:
    """Return a duration (s) as text: 850 µs, 12.3 ms, 1.5 s, 4 min, 1 h 5 min."""
    if value_s < 1:
        scaled, unit = (value_s * 1e6, "µs") if value_s < 1e-3 else (value_s * 1e3, "ms")
        return f"{scaled:.3g}{NBSP}{unit}"
    if value_s < 120:
        return f"{value_s:.3g}{NBSP}s"
    minutes = round(value_s / 60)
    return f"{minutes}{NBSP}min" if minutes < 60 else f"{minutes // 60}{NBSP}h {minutes % 60}{NBSP}min"


def utc_text(epoch_s: float, form: str = "%Y-%m-%d %H:%M") -> str:
    """Return a time (epoch seconds) as text, UTC."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime(form)


def format_expected_duration(value_s: float) -> str:
    """Return an expected duration as text: 50 s, 2 min, 1 h 5 min; at least 1 s, in minutes from 90 s on."""
    whole_s = max(1, round(value_s))
    return f"{whole_s}{NBSP}s" if whole_s < 90 else format_duration(max(whole_s, 120))


def format_remaining_time(value_s: float) -> str:
    """Return an expected remaining time as text: done, 50 s left, 2 min left, 1 h 5 min left."""
    return f"{format_expected_duration(value_s)} left" if value_s > 0 else "done"


def format_bytes(value_b: float) -> str:
    """Return bytes as text in binary units: 5 B, 64.0 KiB, 1.2 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value_b) < 1024 or unit == "GiB":
            return f"{value_b:.0f}{NBSP}{unit}" if unit == "B" else f"{value_b:.1f}{NBSP}{unit}"
        value_b /= 1024
    raise AssertionError


def format_quantity(value: float, unit: str) -> str:
    """Return a value in a base unit as text: 725 µs, 79.0 MiB, 19.7 MiB/s, 86,984 /s, 0.992; exact if whole."""
    if unit == "s":
        return format_duration(value) if value else f"0{NBSP}s"
    if unit in ("B", "B/s"):
        return format_bytes(value) + unit.removeprefix("B")
    text = f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.4g}"
    return text + (f"{NBSP}/s" if unit == "1/s" else "")


def format_rounded(value: float, half_width: float | None = None) -> str:
    """Return a rate or count with thousands commas, rounded to the digit of its half-width, else to a whole number.

    With a half-width, at least three digits are kept, so that values with a significant difference do not look equal.
    """
    places = -math.floor(math.log10(half_width)) if half_width else 0
    if half_width and value:
        places = max(places, 2 - math.floor(math.log10(abs(value))))
    rounded = round(value, min(places, 3))
    return f"{rounded:,.{max(0, min(places, 3))}f}".replace("-", MINUS)


def format_p_value(p: float | None) -> str:
    """Return a p-value as text: three decimals, two above 0.1, never 0.000; an en dash for None."""
    if p is None:
        return "–"
    if p < 0.001:
        return "<" + NBSP + "0.001"
    return f"{p:.3f}" if p <= 0.1 else f"{p:.2f}"
