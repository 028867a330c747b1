"""Reading the text that load generators print: whole lines, each at its place, each exactly once.

A line is described by a `Form`. A report that lacks an expected line, has one twice, out of order, or cut short is a
ParseError with its line number (formats.md section 6); lines of no form (progress, warnings, replies) are passed over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from loadbook.core import units
from loadbook.core.errors import ParseError
from loadbook.tools.base import Captured

# EADDRNOTAVAIL as a C library says it, and as httperf does
_NO_PORTS = re.compile(r"Cannot assign requested address|unexpected error 99$")
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\A(?:\^[A-Z\\])+")  # colours and modes; ^C as a pty echoes it
_NO_TEXT = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
LINE_END = b"\n"


def lines(data: bytes) -> list[str]:
    """Return the lines of an output without CR, terminal sequences and trailing blanks."""
    text = data.decode("utf-8", errors="replace").removeprefix("\ufeff")
    cleaned = (_TERMINAL.sub("", line.rstrip("\r").rsplit("\r", 1)[-1]) for line in text.split("\n"))
    return [line.rstrip() for line in cleaned]


def no_ports(said: Iterable[str]) -> str | None:
    """Return the first line that says that no local port was left for another connection, None if there is none."""
    return next((line for line in said if _NO_PORTS.search(line)), None)


def count(text: str) -> int:
    """Return a printed counter; a negative one is a 32-bit counter that passed 2^31 (wrk prints with %d)."""
    value = int(text)
    return value + 2**32 if value < 0 else value


def half_width(text: str, table: dict[str, float]) -> float:
    """Return half a unit of the last printed digit in base units: ``3.21ms`` is known to 5 us."""
    number = text.rstrip("KMGTkmushB")
    decimals = len(number.partition(".")[2])
    return float(f"0.5e-{decimals}") * table[text[len(number) :]]


@dataclass(frozen=True)
class Form:
    """One kind of line.

    Parameters
    ----------
    name : the form's name.
    shows : a real line of this form, for readers and error messages.
    start : regular expression of how only lines of this form begin.
    rest : regular expression of the rest; a line that begins right and ends wrong is broken.
    optional : the tool leaves the line out where there is nothing to say.
    """

    name: str
    shows: str
    start: str
    rest: str = ""
    optional: bool = False

    @cached_property
    def starts(self) -> re.Pattern[str]:
        """Compiled `start`."""
        return re.compile(self.start)

    @cached_property
    def whole(self) -> re.Pattern[str]:
        """Compiled `start` and `rest`; its named groups are the report's fields."""
        return re.compile(self.start + self.rest)


class Report:
    """The fields found in one report, by name, with the line that each stands on."""

    def __init__(self, tool: str, file: str, found: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
        self.tool, self.file = tool, file
        self.forms = {name: number for name, (number, _) in found.items()}
        self.fields = {f: (n, text) for n, fields in found.values() for f, text in fields.items() if text is not None}

    def __contains__(self, name: str) -> bool:
        return name in self.forms or name in self.fields

    def text(self, field: str) -> str:
        """Return a field as printed."""
        return self.fields[field][1]

    def count(self, field: str) -> int:
        """Return a counter; 0 where its optional line is absent."""
        return count(self.text(field)) if field in self.fields else 0

    def real(self, field: str, table: dict[str, float], unit: str = "") -> float | None:
        """Return a value in base units; None where the tool printed nan or inf.

        `unit` is the suffix that the line's label has in place of the value: ``[ms]``.
        """
        text = self.text(field)
        if re.match(r"-?(nan|inf)", text):
            return None
        try:
            return units.parse(text + unit, table)
        except ValueError as error:
            raise self.wrong(field, str(error)) from None

    def value(self, field: str, table: dict[str, float], unit: str = "") -> float:
        """Return a value in base units that must be a number."""
        value = self.real(field, table, unit)
        if value is None:
            raise self.wrong(field, f"{self.text(field)!r} is not a number")
        return value

    def wrong(self, where: str, message: str) -> ParseError:
        """Return a ParseError at the line of a field or form."""
        number = self.forms.get(where) or self.fields.get(where, (0, ""))[0]
        return ParseError(self.tool, self.file, number, message)


def read(tool: str, text: Sequence[str], forms: Sequence[Form], file: str = "stdout", first: int = 1) -> Report:
    """Return the report in `text`, whose lines are numbered from `first`; raise ParseError unless it is whole."""
    found: dict[str, tuple[int, Mapping[str, str]]] = {}
    broken: dict[str, int] = {}
    possible = re.compile("|".join(f"(?:{form.start})" for form in forms))  # most lines of a long output are of none
    for number, line in enumerate(text, first):
        for form in forms if possible.match(line) else ():
            if not form.starts.match(line):
                continue
            match = form.whole.fullmatch(line)
            if match is None:
                broken.setdefault(form.name, number)
            elif form.name in found:
                raise ParseError(tool, file, number, f"a second line like {form.shows.strip()!r}: two reports in one")
            else:
                found[form.name] = (number, match.groupdict())
    _check_whole(tool, file, forms, found, broken)
    return Report(tool, file, found)


def _check_whole(
    tool: str,
    file: str,
    forms: Sequence[Form],
    found: Mapping[str, tuple[int, Mapping[str, str]]],
    broken: Mapping[str, int],
) -> None:
    """Raise ParseError for the first form that is missing, cut or out of order."""
    last = 0
    for form in forms:
        if form.name in broken and (form.optional or form.name not in found):
            raise ParseError(tool, file, broken[form.name], f"line cut or changed; expected {form.shows.strip()!r}")
        if form.name in found:
            number = found[form.name][0]
            if number < last:
                raise ParseError(tool, file, number, f"line out of order: {form.shows.strip()!r}")
            last = number
        elif not form.optional:
            raise ParseError(tool, file, 0, f"report is not complete: no line like {form.shows.strip()!r}")


def require(tool: str, captured: Captured, text: Sequence[str], begins: str, ends: str) -> None:
    """Raise a ParseError that says why there is no report, unless lines match how reports begin and how they end."""
    if any(re.match(begins, line) for line in text):
        if any(re.match(ends, line) for line in text):
            return
        what = "report is not complete: the tool was killed or gave up, or its output was cut"
    elif not any(text):
        what = "empty: the tool was killed or could not start"
    elif any(line.startswith("Usage:") for line in text):
        what = "the tool printed its usage: an argument was wrong"
    else:
        what = f"no report of {tool} in it; it begins {next(line for line in text if line)[:60]!r}"
    said = [line for line in lines(captured.stderr[:10_000]) if line and "FD_SETSIZE" not in line]
    code = f" (exit code {captured.rc})" if captured.rc else ""
    raise ParseError(
        tool, "stdout", 0, what + _garbage(captured.stdout) + code + (f"; stderr: {said[0][:200]}" if said else "")
    )


def _garbage(data: bytes) -> str:
    """Return where an output ceases to be text, empty if it is text to its end."""
    try:
        data.decode()
        end = len(data)
    except UnicodeDecodeError as error:
        end = error.start
    odd = _NO_TEXT.search(data, 0, end)
    at = odd.start() if odd else end
    return (
        "" if at == len(data) else f"; from byte {at + 1:,} (line {data.count(LINE_END, 0, at) + 1}) on it is no text"
    )


def check_ratio(report: Report, total: tuple[float, float], duration: tuple[float, float], rate: str) -> None:
    """Raise ParseError unless total / duration is the printed rate, within the rounding of all three.

    `total` and `duration` are (value, half-width) in base units; `rate` is the name of the rate's field.
    """
    table = units.COUNT | units.BYTES
    printed = report.real(rate, table)
    if printed is None:
        return
    slack = half_width(report.text(rate), table) + 1e-9 * printed
    low = max(0.0, total[0] - total[1]) / (duration[0] + duration[1])
    high = (total[0] + total[1]) / (duration[0] - duration[1]) if duration[0] > duration[1] else math.inf
    if not low - slack <= printed <= high + slack:
        raise report.wrong(rate, f"{report.text(rate)} does not follow from {total[0]:g} in {duration[0]:g} s")
