"""Time stamps of JTL files: milliseconds since 1970, or text by a SimpleDateFormat pattern (`timestamp_format`).

Text has no zone: it is read as if it were UTC, which is right for durations and seconds, not for times of day. It must
hold milliseconds, or rows could not be ordered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

# those of CsvSampleReader and of the manual that hold milliseconds
KNOWN_PATTERNS = ("yyyy/MM/dd HH:mm:ss.SSS", "yyyy-MM-dd HH:mm:ss.SSS", "yyyy-MM-dd'T'HH:mm:ss.SSS")
_PATTERN_LETTERS = {
    "yyyy": r"(?P<year>\d{4})", "MM": r"(?P<month>\d\d)", "dd": r"(?P<day>\d\d)", "HH": r"(?P<hour>\d\d)",
    "mm": r"(?P<minute>\d\d)", "ss": r"(?P<second>\d\d)", "SSS": r"(?P<ms>\d{3})",
}  # fmt: skip
_ISO = r"\g<year>-\g<month>-\g<day>T\g<hour>:\g<minute>:\g<second>.\g<ms>"


@dataclass(frozen=True)
class TimestampFormat:
    """One way to write time stamps: what it is called in messages, and how one looks; `text` when it is a pattern."""

    description: str
    regex: re.Pattern[str]
    is_pattern: bool = True

    def parse_ms(self, text: str) -> int | None:
        """Return a text as milliseconds since 1970; None for another form, or a day that does not exist."""
        match = self.regex.fullmatch(text)
        if match is None or not self.is_pattern:
            return int(text) if match else None
        parts = {name: int(value) for name, value in match.groupdict().items()}
        ms = parts.pop("ms")
        try:
            return int(datetime(**parts, tzinfo=UTC).timestamp()) * 1000 + ms
        except ValueError:
            return None

    def iso_substitution(self) -> tuple[str, str]:
        """Return a pattern and a replacement for RE2 that turn such a text into ISO 8601 without a zone."""
        order = list(self.regex.groupindex)
        replacement = re.sub(r"\\g<(\w+)>", lambda m: f"\\{order.index(m[1]) + 1}", _ISO)
        return f"^{self.regex.pattern}$", replacement


# 13 digits: from 2001 to 2286; fewer are seconds, or the tail of a torn number
EPOCH_MS = TimestampFormat("milliseconds since 1970 (13 digits)", re.compile(r"[1-9][0-9]{12}"), is_pattern=False)


def parse_timestamp_pattern(pattern: str) -> TimestampFormat:
    """Return the stamps of a SimpleDateFormat pattern; ValueError for unknown letters or without milliseconds."""
    regex = ""
    for quoted, letters, other in re.findall(r"'([^']*)'|([A-Za-z]+)|(.)", pattern, re.DOTALL):
        if letters and letters not in _PATTERN_LETTERS:
            raise ValueError(f"time stamps {pattern!r}: {letters!r} is not read (use ms, or yyyy MM dd HH mm ss SSS)")
        regex += _PATTERN_LETTERS[letters] if letters else re.escape(quoted or other)
    missing = [letters for letters in _PATTERN_LETTERS if _PATTERN_LETTERS[letters] not in regex]
    if missing:
        raise ValueError(f"time stamps {pattern!r} lack {' '.join(missing)}: rows cannot be placed in time (save ms)")
    return TimestampFormat(pattern, re.compile(regex, re.ASCII))
