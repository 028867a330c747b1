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

from loadbook.core.compressed import UTF_16_MARKS, decompress
from loadbook.ingestion.row_prefixes import without_prefix
from loadbook.ingestion.task_results import NOTE, find_outputs
from loadbook.ingestion.text_marks import prefix_note, prefix_shape, without_marks
from loadbook.tools import base
from loadbook.tools.line_patterns import clean_lines

MAX_BYTES = 64 << 20
MIN_ZEROS = 0.5  # of every second byte of UTF-16, also with lines of tables
_DOCKER_LINE = re.compile(r'\s*\{(?=[^\n]{0,1000}"log"\s*:\s*")\s*"(?:log|stream|time)"')
_DOCKER_NOTE = "Docker's JSON around each line"
_ALTERNATIVE = re.compile(r"\|(?![^(]*\))")  # outside of parentheses, in a regular expression
_LITERAL = re.compile(r"(?:[\w ,=/:-]|\\[\\.])+")  # in a regular expression
_JSON_ENDS = tuple("[{,}]")  # of a line with JSON; "spawned: {\"User\": 5} (5 users)" is none
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
    if outputs := find_outputs(text):
        return [_output_of_task(line, output, (*filter(None, (form, encoding)), NOTE)) for line, output in outputs]
    rows, marks = without_prefix(text)
    if marks:
        return [Text(rows.encode(), (*filter(None, (form, encoding)), *marks))]
    changed, origin, marks = without_marks(text)
    notes = [*filter(None, (form, encoding)), *marks]
    # a large output without a report is not held as a list of lines
    lines = clean_lines(changed.encode()) if has_beginnings(changed) else []
    prefixed = list(_prefixed_texts(lines))
    if not prefixed:
        return [Text(changed.encode() if encoding or changed != text else data, tuple(notes), origin)]
    everyone = set().union(*(taken for taken, _ in prefixed))
    rest = "\n".join("" if place in everyone else line for place, line in enumerate(lines))
    texts = [Text(rest.encode(), tuple(notes), origin)] if re.search(f"^{_beginnings()[0]}", rest, re.MULTILINE) else []
    for own, note in prefixed:
        numbers = tuple(origin[min(place, len(origin) - 1)] if origin else place + 1 for place in own)
        texts.append(Text("".join(f"{line}\n" for line in own.values()).encode(), (*notes, note), numbers))
    return texts


def _output_of_task(line: int, output: str, notes: tuple[str, ...]) -> Text:
    """Return what a task wrote, whose result begins at this line of the file, without the marks of a whole text."""
    rows, marks = without_prefix(output)
    changed, _, more = (rows, (), []) if marks else without_marks(output)
    return Text(changed.encode(), (*notes, *marks, *more), (line,) * (changed.count("\n") + 1))


def unwrap_rows(data: bytes) -> Text:
    """Return the content of a log of single requests without what lies around its lines (`unwrap`)."""
    text = data.decode(errors="surrogateescape")  # bytes that are no UTF-8 stay
    logged = _logged_text(text) if _DOCKER_LINE.match(text) else None
    rows, marks = without_prefix(text if logged is None else logged)
    notes = (*([] if logged is None else [_DOCKER_NOTE]), *marks)
    return Text(rows.encode(errors="surrogateescape") if notes else data, notes)


def _decode(data: bytes) -> tuple[str, str | None]:
    """Return an output as text, and what it was in if that is not UTF-8: UTF-16, or the JSON of Docker's log files."""
    encoding = UTF_16_MARKS.get(data[:2])
    if encoding is None and len(head := data[:400]) > 20:
        high, low = (head[place::2].count(0) / (len(head) // 2) for place in (0, 1))
        encoding = None if max(high, low) < MIN_ZEROS else "utf-16-be" if high > low else "utf-16-le"
    if encoding:
        return data.decode(encoding, errors="replace").removeprefix("\ufeff"), "UTF-16"
    text = data.decode(errors="replace")
    if text.startswith("\ufeff"):
        return text[1:], "a byte order mark"
    if _DOCKER_LINE.match(text) and (logged := _logged_text(text)) is not None:
        return logged, _DOCKER_NOTE
    return text, None


def _logged_text(text: str) -> str | None:
    """Return the lines of a container from Docker's file of JSON objects; None if it is no such file."""
    try:
        return "".join(json.loads(line)["log"] for line in text.splitlines() if line.strip())
    except (ValueError, KeyError, TypeError):
        return None


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
            shapes.setdefault(prefix_shape(prefix), []).append(place)
    claimed: set[int] = set()
    for shape in sorted(shapes, key=len, reverse=True):
        pattern = re.compile(f"{shape}|{prefix_shape(anchors[shapes[shape][0]].rstrip())}$")
        matches = (
            (place, pattern.match(lines[place]))
            for place in _reach(lines, anchors, shapes[shape])
            if place not in claimed
        )
        taken = {place: lines[place][match.end() :] for place, match in matches if match}
        if len(taken) >= MIN_LINES:
            claimed |= taken.keys()
            yield taken, prefix_note(anchors[shapes[shape][0]])


def _anchors(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the place of each first line of a report, and the prefix before it ("" if there is none)."""
    beginning, words = _beginnings()
    begin, inside = re.compile(beginning), re.compile(rf"(?P<prefix>.*?[^\w]){beginning}")
    json_begin = re.compile(rf"(?P<prefix>[^\"{{}}]*?\S[^\"{{}}]*?)(?:{_JSON_BEGIN})")
    for place, line in enumerate(lines):
        head = line[: 2 * MAX_PREFIX]
        if any(word in head for word in words) and (match := begin.match(head) or inside.match(head)):
            yield place, match.groupdict().get("prefix", "")
        elif (line[-1:] == "[" or "{" in head) and line[-1:] in _JSON_ENDS and (match := json_begin.match(head)):
            yield place, match["prefix"]


def _reach(lines: Sequence[str], anchors: Mapping[int, str], places: Sequence[int]) -> Iterator[int]:
    """Yield the places of the lines that may have a prefix: of blanks only up to the next report, else all."""
    if anchors[places[0]].strip():
        yield from range(len(lines))
        return
    ends = sorted([*anchors, len(lines)])
    for start in places:
        yield from range(start, ends[ends.index(start) + 1])
