"""Command lines, durations and error messages of programs that are written in Go: vegeta, fortio, hey, bombardier."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

# messages of Go's packages net and net/http -> classes of errors
FAILURE_PATTERNS = (
    ("errors_driver", r"too many open files|cannot assign requested address|no buffer space"),
    ("errors_connect", r"dial |connection refused|no such host|no route to host"),
    ("errors_timeout", r"Client\.Timeout|deadline exceeded|i/o timeout|TLS handshake timeout"),
    ("errors_write", r"broken pipe|write: "),
    ("errors_read", r"EOF|reset by peer|server closed|malformed|read: "),
)
# beginning of vegeta's results in gob: length of the message, number of the type (both of up to three bytes), the type
GOB_RESULT = re.compile(
    rb"(?:[\x01-\x7f]|\xff.|\xfe..)(?:[\x01-\x7f]|\xff.|\xfe..)\x03\x01\x01\x06Result\x01", re.DOTALL
)
UNIT_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|μs|ms|s|m|h)")  # with the micro sign or the Greek letter


def option(argv: Sequence[str], *names: str) -> str | None:
    """Return the last value of an option, written as `-name=value` or `-name value`, also with two hyphens.

    `names` are the option's names without hyphens. None if `argv` does not have it.
    """
    value = None
    for word, following in pairwise([*argv, ""]):
        key, equals, text = word.partition("=")
        if key in {f"{hyphens}{name}" for name in names for hyphens in ("-", "--")}:
            value = text if equals else following
    return value


def number_option(argv: Sequence[str], *names: str) -> float | None:
    """Return the number that is the value of an option; None without the option, or if its value is no number."""
    text = option(argv, *names) or ""
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,12})?", text) else None


def parse_duration_s(text: str) -> float | None:
    """Return the seconds of a duration such as `1m2.5s` or `0s`; None if the text is none."""
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * UNIT_NS[re.sub("[µμ]", "u", unit)] for number, unit in parts) / 1e9


def printed_duration_s(text: str) -> float | None:
    """Return the seconds of a duration as Go prints it, without fractions of minutes and hours; None for others."""
    return None if re.search(r"\.[0-9]+[mh](?!s)", text) else parse_duration_s(text)


def duration_s(text: str) -> float | None:
    """Return the seconds of a duration such as `1m2.5s`; None if it is 0, or none."""
    return parse_duration_s(text) or None
