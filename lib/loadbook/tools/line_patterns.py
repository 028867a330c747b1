"""Parser for the text reports of load generators, which requires every expected line exactly once and in order.

A line is described by a `LinePattern`. A report in which an expected line is missing, repeated, out of order or
truncated raises ParseError with the line number. Lines that match no pattern (progress, warnings) are skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from loadbook.core import units
from loadbook.core.errors import OtherProgram, ParseError
from loadbook.tools.base import ToolOutput

# EADDRNOTAVAIL as the C library and as httperf report it
_NO_PORTS = re.compile(r"Cannot assign requested address|unexpected error 99$")
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\A(?:\^[A-Z\\])+")  # colours and modes; ^C echoed by a terminal
# GitLab's, which ends with a carriage return; what is before it on a line is not overwritten
_SECTION = re.compile(r"(?:\x1b\[0K)?section_(?:start|end):\d+:[^\r\n]*\r(?:\x1b\[0K)?")
_BINARY = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")


def printed_load(report: TextReport, *fields: str) -> dict[str, str]:
    """Return what a report prints of its load: these fields, and what `url_load` finds in `url`."""
    load = {name: report.text(name) for name in fields if name in report}
    return load | (url_load(report.text("url")) if "url" in report else {})


def url_load(url: str) -> dict[str, str]:
    """Return the path with query of a URL, and its scheme if it has one; hosts differ where services are compared."""
    scheme, path = re.fullmatch(r"(?:([a-z]+)://[^/?]*)?(.*)", url.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
    return {"path": path or "/"} | ({"scheme": scheme} if scheme else {})


def clean_lines(data: bytes) -> list[str]:
    """Return the lines of an output without carriage returns, terminal escape sequences and trailing blanks."""
    text = data.decode("utf-8", errors="replace").removeprefix("\ufeff")
    text = _SECTION.sub("", text) if "section_" in text else text
    cleaned = (_TERMINAL.sub("", line.rstrip("\r").rsplit("\r", 1)[-1]) for line in text.split("\n"))
    return [line.rstrip() for line in cleaned]


def find_port_exhaustion(output: Iterable[str]) -> str | None:
    """Return the first line that reports that no local port was left for another connection; None if there is none."""
    return next((line for line in output if _NO_PORTS.search(line)), None)


def rounding_half_width(text: str, table: dict[str, float]) -> float:
    """Return half a unit of the last printed digit in base units: 5e-6 (s) for ``3.21ms``.

    `table` maps each suffix to its factor, such as `core.units.TIME_UNITS_S`; a suffix that it lacks is a KeyError.
    """
    number = text.rstrip("KMGTkmushB")
    decimals = len(number.partition(".")[2])
    return float(f"0.5e-{decimals}") * table[text[len(number) :]]


@dataclass(frozen=True)
class LinePattern:
    """Description of one line of a report.

    Parameters
    ----------
    name : the pattern's name.
    example : a real line of this kind, for readers and error messages.
    start : regular expression of the beginning, which only lines of this kind have.
    rest : regular expression of the remaining line; a line that matches `start` but not `rest` is broken.
    optional : whether the tool omits the line in some reports.
    """

    name: str
    example: str
    start: str
    rest: str = ""
    optional: bool = False

    @cached_property
    def start_regex(self) -> re.Pattern[str]:
        """Compiled `start`."""
        return re.compile(self.start)

    @cached_property
    def line_regex(self) -> re.Pattern[str]:
        """Compiled `start` and `rest`; its named groups are the report's fields."""
        return re.compile(self.start + self.rest)


class TextReport:
    """Fields of one report by name, with their line numbers; a field is a named group of a `LinePattern`.

    `"name" in report` is true for a field, or the name of a pattern, that the report has. `table` maps the suffixes
    of numbers to factors, such as `core.units.TIME_UNITS_S`: its base unit is that of factor 1.
    """

    def __init__(self, tool: str, file: str, matches: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
        self.tool, self.file = tool, file
        self.line_numbers = {name: number for name, (number, _) in matches.items()}
        self.fields = {f: (n, text) for n, fields in matches.values() for f, text in fields.items() if text is not None}

    def __contains__(self, name: str) -> bool:
        return name in self.line_numbers or name in self.fields

    def text(self, field: str) -> str:
        """Return a field as printed; KeyError if the report lacks it."""
        return self.fields[field][1]

    def text_if(self, field: str, value: float) -> str | None:
        """Return a counter as printed; None if the report lacks it or its value differs from `value`."""
        return self.text(field) if field in self.fields and self.count(field) == value else None

    def count(self, field: str) -> int:
        """Return the value of a counter; 0 if its optional line is absent."""
        value = int(self.text(field)) if field in self.fields else 0
        return value + 2**32 if value < 0 else value  # a 32-bit counter that passed 2^31: wrk prints with %d

    def optional_value(self, field: str, table: dict[str, float], unit: str = "") -> float | None:
        """Return a value in base units; None if the tool printed nan or inf.

        `unit` is the unit if the tool prints it in the line's label, such as ``[ms]``, instead of behind the value.
        """
        text = self.text(field)
        if re.match(r"-?(nan|inf)", text):
            return None
        try:
            return units.parse_quantity(text + unit, table)
        except ValueError as error:
            raise self.error_at(field, str(error)) from None

    def half_width(self, field: str, table: dict[str, float]) -> float:
        """Return half a unit of a field's last printed digit, in base units."""
        return rounding_half_width(self.text(field), table)

    def value(self, field: str, table: dict[str, float], unit: str = "") -> float:
        """Return a value in base units; ParseError if the tool printed nan or inf."""
        value = self.optional_value(field, table, unit)
        if value is None:
            raise self.error_at(field, f"{self.text(field)!r} is not a number")
        return value

    def rows(
        self, lines: Sequence[str], start: int, end: int, row: tuple[re.Pattern[str], re.Pattern[str]]
    ) -> list[tuple[str, ...]]:
        """Return the groups of the rows of a table among the lines from `start` (counted from 0) to before `end`.

        `row` are regular expressions of the beginning of a row and of a whole one. Other lines are skipped; a line
        that only begins like a row raises ParseError.
        """
        rows = []
        for number, line in enumerate(lines[start:end], start + 1):
            if match := row[1].fullmatch(line):
                rows.append(match.groups())
            elif row[0].match(line):
                raise ParseError(self.tool, self.file, number, f"line cut or changed: {line[:60]!r}")
        return rows

    def error_at(self, name: str, message: str) -> ParseError:
        """Return a ParseError with the line number of the field or line called `name`."""
        number = self.line_numbers.get(name) or self.fields.get(name, (0, ""))[0]
        return ParseError(self.tool, self.file, number, message)


def restore_indentation(
    text: Sequence[str], patterns: Sequence[LinePattern], rows: Mapping[str, str] | None = None
) -> Sequence[str]:
    """Return a report's lines with the blanks before them, which Markdown, wikis and chats drop, or make one.

    The first indented pattern tells whether they were dropped: of those that are not optional, if there is one. `rows`
    maps regular expressions of the rows of its tables, without blanks, to the blanks before them.
    """
    indented = [(re.split(r"\S", pattern.example, maxsplit=1)[0], pattern) for pattern in patterns]
    indented = [(blanks, pattern) for blanks, pattern in indented if blanks]
    sign_blanks, sign = next((form for form in indented if not form[1].optional), indented[0])
    if any(sign.start_regex.match(line) for line in text):
        return text
    original = text
    if not any(sign.start_regex.match(sign_blanks + line) for line in text):
        text = [line.removeprefix(" ") for line in text]  # several blanks may have become one
    if not any(sign.start_regex.match(sign_blanks + line) for line in text):
        return original
    forms = [(blanks, pattern.line_regex) for blanks, pattern in indented]
    forms += [(blanks, re.compile(blanks + row)) for row, blanks in (rows or {}).items()]
    cut_forms = [(blanks, pattern.start_regex) for blanks, pattern in indented]
    return [_indented_line(line, forms, cut_forms) if line else line for line in text]


_Forms = Sequence[tuple[str, re.Pattern[str]]]  # blanks, and a regular expression of a line with them


def _indented_line(line: str, forms: _Forms, cut_forms: _Forms) -> str:
    """Return a line with the blanks of its form: of a whole line if possible, else of one that was cut."""
    whole = (blanks + line for blanks, form in forms if form.fullmatch(blanks + line))
    cut = (blanks + line for blanks, form in cut_forms if form.match(blanks + line))
    return next(whole, next(cut, line))


def read_report(
    tool: str, text: Sequence[str], patterns: Sequence[LinePattern], file: str = "stdout", first: int = 1
) -> TextReport:
    """Return the report in `text`, whose lines are numbered from `first`; raise ParseError unless it is complete."""
    matches: dict[str, tuple[int, Mapping[str, str]]] = {}
    broken: dict[str, int] = {}
    possible = re.compile("|".join(f"(?:{pattern.start})" for pattern in patterns))  # skips most lines of a long output
    for number, line in enumerate(text, first):
        for pattern in patterns if possible.match(line) else ():
            if not pattern.start_regex.match(line):
                continue
            match = pattern.line_regex.fullmatch(line)
            if match is None:
                broken.setdefault(pattern.name, number)
            elif pattern.name in matches:
                raise ParseError(tool, file, number, second_report(line))
            else:
                matches[pattern.name] = (number, match.groupdict())
    last = 0
    for pattern in patterns:
        example, number = repr(pattern.example.strip()), matches.get(pattern.name, (0, {}))[0]
        if pattern.name in broken and (pattern.optional or not number):
            raise ParseError(tool, file, broken[pattern.name], f"line cut or changed; expected {example}")
        if number and number < last:
            raise ParseError(tool, file, number, f"line out of order: {example}")
        if not number and not pattern.optional:
            raise ParseError(tool, file, 0, f"report is not complete: no line like {example}")
        last = number or last
    return TextReport(tool, file, matches)


def second_report(line: str) -> str:
    """Return the error text for a file with two reports; `line` is the first line that occurs twice."""
    split = "two reports in one: name them FILE#1, FILE#2, ..., or split the file (docs/result-files.md)"
    return f"a second line {line.strip()[:60]!r}: {split}"


def unsplit_report(line: str) -> str:
    """Return the error text for two reports that can only be split by hand; `line` occurs twice."""
    return f"a second line {line.strip()[:60]!r}: two reports in one: split it, a file for each"


def require_report(tool: str, output: ToolOutput, text: Sequence[str], begins: str, ends: str) -> None:
    """Raise ParseError with the probable reason unless a line begins with `begins`, and one with `ends`.

    Both are regular expressions; `text` has the lines of the output.
    """
    kind: type[str] = str
    if any(re.match(begins, line) for line in text):
        if any(re.match(ends, line) for line in text):
            return
        problem = "report is not complete: the tool was killed or gave up, or its output was cut"
    elif not any(text):
        problem = "empty: the tool was killed or could not start"
    elif any(re.match(r" +" + begins, line) for line in text):
        problem = "the report is indented: remove the blanks before its lines"
    elif any(re.match(ends, line) for line in text):
        first_words = re.split(r"[\\(\[|]|\.\*", begins, maxsplit=1)[0]
        kind = OtherProgram
        problem = f"no report of {tool} in it, or its first lines are missing: none begins {first_words!r}"
    elif any(line.startswith("Usage:") for line in text):
        problem = "the tool printed its usage: an argument was wrong"
    else:
        kind = OtherProgram
        problem = f"no report of {tool} in it; it begins {next(line for line in text if line)[:60]!r}"
    stderr_lines = [line for line in clean_lines(output.stderr[:10_000]) if line and "FD_SETSIZE" not in line]
    code = exit_text(output)
    stderr = f"; stderr: {stderr_lines[0][:200]}" if stderr_lines else ""
    raise ParseError(tool, "stdout", 0, kind(problem + _binary_garbage_text(output.stdout) + code + stderr))


def exit_text(output: ToolOutput) -> str:
    """Return " (exit code N)" for an error message; "" for 0, and if the code is not known."""
    return f" (exit code {output.exit_code})" if output.exit_code else ""


def stderr_text(output: ToolOutput, place: int = 0) -> str:
    """Return ": " and the first line of stderr that is not empty, or that at index `place`; "" if stderr is empty."""
    lines = [line for line in clean_lines(output.stderr) if line]
    return f": {lines[place][:300]}" if lines else ""


def other_output_text(tool: str, output: ToolOutput) -> str:
    """Return the reason why an output that is not empty has no report of a tool: it is that of another program."""
    first = next((line for line in clean_lines(output.stdout) if line), "")
    circumstances = utf_16_text(output.stdout) + exit_text(output)
    text = f"no report of {tool} in it{circumstances}; it begins {first[:60]!r}{stderr_text(output)}"
    return OtherProgram(text)


def utf_16_text(data: bytes) -> str:
    """Return a hint for an output in UTF-16, which PowerShell's `>` writes; "" for any other."""
    return "; it is UTF-16: convert it to UTF-8" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""


def _binary_garbage_text(data: bytes) -> str:
    """Return a clause with the position at which an output ceases to be text; "" if all of it is text."""
    if encoding := utf_16_text(data):
        return encoding
    try:
        data.decode()
        end = len(data)
    except UnicodeDecodeError as error:
        end = error.start
    if binary := _BINARY.search(data, 0, end):
        end = binary.start()
    line = data.count(b"\n", 0, end) + 1
    return f"; from byte {end + 1:,} (line {line}) on it is no text" if end < len(data) else ""


def check_rate(report: TextReport, total: tuple[float, float], duration: tuple[float, float], rate: str) -> None:
    """Raise ParseError unless total / duration equals the printed rate within the rounding of all three.

    `total` (such as a count or bytes) and `duration` (s) are (value, rounding error). `rate` is the name of the
    rate's field; a rate printed as nan or inf is not checked.
    """
    table = units.COUNT_UNITS | units.BYTE_UNITS
    printed = report.optional_value(rate, table)
    if printed is None:
        return
    slack = rounding_half_width(report.text(rate), table) + 1e-9 * printed
    low = max(0.0, total[0] - total[1]) / (duration[0] + duration[1])
    high = (total[0] + total[1]) / (duration[0] - duration[1]) if duration[0] > duration[1] else math.inf
    if not low - slack <= printed <= high + slack:
        raise report.error_at(rate, f"{report.text(rate)} does not follow from {total[0]:g} in {duration[0]:g} s")


def part_per_s(report: TextReport, part: int, total: int, duration: tuple[float, float]) -> float:
    """Return part / duration (1/s), computed from the report's field `rate` (total / duration) if that is more exact.

    `part` is the number of those of the `total` requests that count, such as the good ones; `duration` is (value,
    rounding error) in s.
    """
    rate, (seconds, half_width) = report.value("rate", units.COUNT_UNITS), duration
    if not part:
        return 0.0
    if rate > 0 and (seconds == 0 or 0.005 / rate < half_width / seconds):
        return rate * (part / total)
    return part / seconds
