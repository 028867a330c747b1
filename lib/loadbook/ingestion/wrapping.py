"""What reports lie in: compression, encodings, prefixes of lines, marks of Markdown; all of it is taken off.

A prefix is what stands before the first line of a report: a time stamp, ``bench-1  | `` or ``> ``. It is taken off the
lines that have it, with other times of the same form. A report whose lines have a prefix is a text of its own, so that
several containers may print into one log. Numbers of lines in errors are those of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from loadbook.core.compressed import decompress
from loadbook.tools import base
from loadbook.tools.line_patterns import clean_lines

MAX_BYTES = 64 << 20
_UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_DATE = rf"(?:\d{{4}}[-/]\d\d[-/]\d\d|(?:\w{{3}} )?{_MONTH} {{1,2}}\d{{1,2}}|\d{{1,2}}[/ ]{_MONTH}[/ ]\d{{4}})"
# times as logs print them: with or without a date, seconds since 1970, seconds since a start
_TIME = re.compile(
    rf"\b\w{{3}} {_MONTH} {{1,2}}\d{{1,2}} {_CLOCK}(?: [A-Z]{{3,4}})? \d{{4}}\b"
    rf"|(?:{_DATE}(?:[T :]|, )?)?{_CLOCK}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?|\b\d{{9,10}}\.\d+\b|\b\d{{13}}\b"
    r"|(?<=\[) *\d+\.\d+(?=\])"
)
_BOLD = re.compile(r"\*\*(\S(?:[^*\n]*[^\s*])?)\*\*")
_BLANKS = str.maketrans(dict.fromkeys("\u00a0\u2007\u202f", " "))
_ALTERNATIVE = re.compile(r"\|(?![^(]*\))")  # outside of parentheses, in a regular expression
_LITERAL = re.compile(r"(?:[\w ,=/:-]|\\[\\.])+")  # in a regular expression
_JSON_BEGIN = r"[\[{]$|\{\s*\""
MAX_PREFIX = 200
MIN_LINES = 2  # with a prefix, or it is none


@dataclass(frozen=True)
class Text:
    """One text in a file: its content as UTF-8, and what was taken off, such as "gzip" or "the prefix '> '".

    `numbers` are those of its lines in the file, from 1; empty if the text has all lines of the file.
    """

    data: bytes
    taken_off: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()


def unwrap(data: bytes, name: str = "") -> list[Text]:
    """Return the texts in the content of the file `name`: one, or one for each prefix of lines.

    The content itself, byte for byte, is the only text if nothing has to be taken off.

    Raises
    ------
    DataError : a compressed file is cut, broken or above 64 MiB.
    """
    data, form = decompress(data, name, MAX_BYTES)
    text, encoding = _decode(data)
    changed, marks = _without_marks(text)
    notes = [*filter(None, (form, encoding)), *marks]
    # a large output without a report is not held as a list of lines
    lines = clean_lines(changed.encode()) if has_beginnings(changed) else []
    prefixed = list(_prefixed_texts(lines))
    if not prefixed:
        return [Text(changed.encode() if encoding or marks else data, tuple(notes))]
    everyone = set().union(*(taken for taken, _ in prefixed))
    rest = "\n".join("" if place in everyone else line for place, line in enumerate(lines))
    texts = [Text(rest.encode(), tuple(notes))] if re.search(f"^{_beginnings()[0]}", rest, re.MULTILINE) else []
    for own, note in prefixed:
        numbers = tuple(place + 1 for place in own)
        texts.append(Text("".join(f"{line}\n" for line in own.values()).encode(), (*notes, note), numbers))
    return texts


def _decode(data: bytes) -> tuple[str, str | None]:
    """Return an output as text, and what it was in if that is not UTF-8: UTF-16, or the JSON of Docker's log files."""
    encoding = _UTF_16.get(data[:2])
    if encoding is None and len(head := data[:400]) > 20 and head[1::2].count(0) > 0.9 * len(head[1::2]):
        encoding = "utf-16-le"
    if encoding:
        return data.decode(encoding, errors="replace").removeprefix("\ufeff"), "UTF-16"
    text = data.decode(errors="replace")
    if text.startswith("\ufeff"):
        return text[1:], "a byte order mark"
    if text.lstrip().startswith('{"log":"') and (logged := _logged_text(text)) is not None:
        return logged, "Docker's JSON around each line"
    return text, None


def _logged_text(text: str) -> str | None:
    """Return the lines of a container from Docker's file of JSON objects; None if it is no such file."""
    try:
        return "".join(json.loads(line)["log"] for line in text.splitlines() if line.strip())
    except (ValueError, KeyError, TypeError):
        return None


def _without_marks(text: str) -> tuple[str, list[str]]:
    """Return a text without no-break spaces and bold type, and the names of what it had."""
    notes = []
    if (plain := text.translate(_BLANKS)) != text:
        notes.append("no-break spaces")
    if (regular := _BOLD.sub(r"\1", plain)) != plain:
        notes.append("bold type")
    return regular, notes


@cache
def _beginnings() -> tuple[str, tuple[str, ...]]:
    """Return a regular expression of the first lines of all text reports, and words of which each has one.

    The words find the few lines of a large output for which the regular expression is worth its time.
    """
    first_lines = (base.load_tool(name).report_begin.partition(r"\n")[0] for name in base.tool_names())
    begins = {begin for line in first_lines for begin in _ALTERNATIVE.split(line)} - {""}
    words = (max(_LITERAL.findall(line), key=len, default="") for line in begins)
    return f"(?:{'|'.join(sorted(f'(?:{line})' for line in begins))})", tuple(re.sub(r"\\(.)", r"\1", w) for w in words)


def has_beginnings(text: str) -> bool:
    """Return whether a text may have the first line of a report, or JSON."""
    return any(word in text for word in (*_beginnings()[1], "{", "["))


def _prefixed_texts(lines: Sequence[str]) -> Iterator[tuple[dict[int, str], str]]:
    """Yield, for each prefix, place -> line without it of the lines that have it, and a sentence on it."""
    anchors = dict(_anchors(lines))
    shapes: dict[str, list[int]] = {}
    for place, prefix in anchors.items():
        if prefix:
            shapes.setdefault(_shape(prefix), []).append(place)
    claimed: set[int] = set()
    for shape in sorted(shapes, key=len, reverse=True):
        pattern = re.compile(f"{shape}|{_shape(anchors[shapes[shape][0]].rstrip())}$")
        matches = (
            (place, pattern.match(lines[place]))
            for place in _reach(lines, anchors, shapes[shape])
            if place not in claimed
        )
        taken = {place: lines[place][match.end() :] for place, match in matches if match}
        if len(taken) >= MIN_LINES:
            claimed |= taken.keys()
            yield taken, _note(anchors[shapes[shape][0]])


def _anchors(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the place of each first line of a report, and the prefix before it ("" if there is none)."""
    beginning, words = _beginnings()
    begin, inside = re.compile(beginning), re.compile(rf"(?P<prefix>.*?[^\w]){beginning}")
    json_begin = re.compile(rf"(?P<prefix>[^\"{{}}]*?\S[^\"{{}}]*?)(?:{_JSON_BEGIN})")
    for place, line in enumerate(lines):
        head = line[: 2 * MAX_PREFIX]
        if any(word in head for word in words) and (match := begin.match(head) or inside.match(head)):
            yield place, match.groupdict().get("prefix", "")
        elif (line[-1:] == "[" or "{" in head) and (match := json_begin.match(head)):
            yield place, match["prefix"]


def _shape(prefix: str) -> str:
    """Return a regular expression of a prefix, in which times may be others of the same form."""
    shape, end = "", 0
    for time in _TIME.finditer(prefix):
        shape += re.escape(prefix[end : time.start()]) + _FORM.sub(_form_part, time[0])
        end = time.end()
    return shape + re.escape(prefix[end:])


_FORM = re.compile(r"[A-Za-z]{3,4}|(?<=[.,])\d+|\d+| +|[^\w ]|\w")


def _form_part(part: re.Match[str]) -> str:
    """Return a regular expression of a part of a time: names and digits may be others, with fewer digits of days."""
    text = part[0]
    if text.isdecimal():
        is_counter = ":" not in part.string or part.string[part.start() - 1 : part.start()] in (".", ",")
        return r"\d+" if is_counter else rf"\d{{{len(text)}}}" if len(text) > 2 else r"\d{1,2}"
    if text.isspace():
        return " *"
    return "[A-Za-z]+" if len(text) > 2 else re.escape(text)


def _reach(lines: Sequence[str], anchors: Mapping[int, str], places: Sequence[int]) -> Iterator[int]:
    """Yield the places of the lines that may have a prefix: of blanks only up to the next report, else all."""
    if anchors[places[0]].strip():
        yield from range(len(lines))
        return
    ends = sorted([*anchors, len(lines)])
    for start in places:
        yield from range(start, ends[ends.index(start) + 1])


def _note(prefix: str) -> str:
    """Return what was taken off the lines, for a sentence."""
    if not prefix.strip():
        return "indentation"
    return f"the prefix {prefix!r}{' with the time of each line' if _TIME.search(prefix) else ''}"
