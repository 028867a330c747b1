"""Marks of a whole text: of HTML and Markdown, lines that are doubled or not divided, a prefix that every line has."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from loadbook.tools.json_report import document_ends
from loadbook.tools.line_patterns import clean_lines

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_DATE = rf"(?:\d{{4}}[-/]\d\d[-/]\d\d|(?:\w{{3}} )?{_MONTH} {{1,2}}\d{{1,2}}|\d{{1,2}}[/ ]{_MONTH}[/ ]\d{{4}})"
# times as logs print them: with or without a date, seconds since 1970, seconds since a start
_TIME = re.compile(
    rf"\b\w{{3}} {_MONTH} {{1,2}}\d{{1,2}} {_CLOCK}(?: [A-Z]{{3,4}})? \d{{4}}\b"
    rf"|(?:{_DATE}(?:[T :]|, )?)?{_CLOCK}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?|\b\d{{9,10}}\.\d+\b|\b\d{{13}}\b"
    r"|(?<=\[) *\d+\.\d+(?=\])|\A#\d+ \d+\.\d+(?=\s|\Z)"  # the last one is BuildKit's
)
_BOLD = re.compile(r"\*\*(\S(?:[^*\n]*[^\s*])?)\*\*")
_BLANKS = str.maketrans(dict.fromkeys("\u00a0\u2007\u202f", " "))
_ENTITIES = {"lt": "<", "gt": ">", "nbsp": " ", "#160": " ", "#39": "'", "quot": '"', "amp": "&"}
_ENTITY = re.compile(rf"&({'|'.join(_ENTITIES)});")
_BREAK = re.compile(r"<br ?/?>(?=\r?$)", re.MULTILINE)
_PREFORMATTED = re.compile(r"</?(?:pre|code)(?: [^<>\n]*)?>")
_SEVERAL_DOCUMENTS = re.compile(r"[}\]][ \t]*[{\[]")
# of cat -n, nl and grep -n
_NUMBER = re.compile(r"(?P<file>[\w./-]*[A-Za-z_][\w./-]*[:-])? *(?P<number>\d+)(?:[\t:-]| \| | |$)")
_LAST_OF_PREFIX = " \t|>:]"
_CONTENT = re.compile(r"[,{\"]")  # of CSV and JSON, which no prefix has beside its time
MIN_LINES = 4  # of a text whose lines all have a prefix
MIN_DOUBLED = 8  # lines, of which every second is empty
MAX_PREFIX = 200


def without_marks(text: str) -> tuple[str, tuple[int, ...], list[str]]:
    """Return a text without marks, the numbers its lines had (empty: the same), and the names of what it had."""
    notes = []
    if "\r" in text and "\n" not in text:
        text = text.replace("\r", "\n")
        notes.append("line ends of one carriage return")
    for change, name in _CHANGES:
        if (changed := change(text)) != text:
            text = changed
            notes.append(name)
    text, numbers, note = _divided(text)
    notes += note
    if taken := _without_prefix(text):
        text = taken[0]
        notes.append(taken[1])
    return text, numbers, notes


def _without_entities(text: str) -> str:
    """Return a text without HTML's entities; those of quotes stay where JSON has quotes of its own."""
    keeps = '"' in text
    return _ENTITY.sub(lambda match: match[0] if keeps and match[1] == "quot" else _ENTITIES[match[1]], text)


def _without_backticks(text: str) -> str:
    """Return a text without the backticks around each of its lines."""
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    if len(filled) < MIN_LINES or not all(len(line) > 2 and line[0] == line.rstrip()[-1] == "`" for line in filled):
        return text
    return "\n".join(line.rstrip()[1:-1] if line.strip() else line for line in lines)


_CHANGES: Sequence[tuple[Callable[[str], str], str]] = (
    (lambda text: text.translate(_BLANKS), "no-break spaces"),
    (lambda text: _BOLD.sub(r"\1", text), "bold type"),
    (lambda text: _BREAK.sub("", text), "line breaks of HTML"),
    (lambda text: _PREFORMATTED.sub("", text), "marks of preformatted text in HTML"),
    (_without_entities, "entities of HTML"),
    (_without_backticks, "backticks"),
)


def _divided(text: str) -> tuple[str, tuple[int, ...], list[str]]:
    """Return a text with a line for each of its own, and one for each document in JSON; as `without_marks`."""
    if "\n\n" in text and len(lines := text.split("\n")) > MIN_DOUBLED and not any(map(str.strip, lines[1::2])):
        return "\n".join(lines[::2]), tuple(range(1, len(lines) + 1, 2)), ["an empty line behind each line"]
    if not _SEVERAL_DOCUMENTS.search(text) or not (ends := document_ends(text)):
        return text, (), []
    parts = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    numbers: list[int] = []
    number = 1
    for part in parts:
        numbers += range(number, number + part.count("\n") + 1)
        number += part.count("\n")
    return "\n".join(parts), tuple(numbers), ["several documents in JSON on one line"]


def _without_prefix(text: str) -> tuple[str, str] | None:
    """Return a text without the prefix of every line that is not empty, and a sentence on it; None without one."""
    longest = max(clean_lines(text[: 20 * MAX_PREFIX].encode()), key=len)
    prefixes = _prefixes(longest)
    if not _NUMBER.match(longest) and not prefixes:
        return None
    lines = clean_lines(text.encode())
    filled = [line for line in lines if line]
    if len(filled) < MIN_LINES:
        return None
    numbered = [_with_number(line, raw) for line, raw in zip(lines, text.split("\n"), strict=True)]
    found = [_NUMBER.match(line) for line in numbered if line]
    if all(found) and _are_numbers([match for match in found if match]):
        return "\n".join(_NUMBER.sub("", line, count=1) for line in numbered), "the number of each line"
    for prefix in reversed(prefixes):
        every = re.compile(f"{prefix_shape(prefix)}|{prefix_shape(prefix.rstrip())}$")
        if all(map(every.match, filled)):
            return "\n".join(every.sub("", line, count=1) for line in lines), prefix_note(prefix)
    return None


def _with_number(line: str, raw: str) -> str:
    """Return a line with the number that stood before its carriage returns, as they delete it from the line."""
    before, returned, _ = raw.rstrip("\r").partition("\r")
    number = _NUMBER.fullmatch(before) if returned else None
    return before + line if number else line


def _are_numbers(matches: Sequence[re.Match[str]]) -> bool:
    """Return whether each line has the number after that of the line before, with the same name of a file."""
    numbers = [int(match["number"]) for match in matches]
    return len({match["file"] for match in matches}) == 1 and numbers == [*range(numbers[0], numbers[0] + len(numbers))]


def _prefixes(line: str) -> list[str]:
    """Return what may be the prefix before a line, the shortest first."""
    ends = [end for end in range(1, min(len(line), MAX_PREFIX) + 1) if line[end - 1] in _LAST_OF_PREFIX]
    in_times = {place for time in _TIME.finditer(line) for place in range(time.start() + 1, time.end() + 1)}
    found = (line[:end] for end in ends if end not in in_times)
    return [prefix for prefix in found if prefix.strip() and not _CONTENT.search(_TIME.sub("", prefix))]


def prefix_shape(prefix: str) -> str:
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


def prefix_note(prefix: str) -> str:
    """Return what was taken off the lines, for a sentence."""
    if not prefix.strip():
        return "indentation"
    return f"the prefix {prefix!r}{' with the time of each line' if _TIME.search(prefix) else ''}"
