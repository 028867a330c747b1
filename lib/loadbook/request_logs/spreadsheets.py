"""What spreadsheets make of a JTL that they export: words for true and false, dates, decimals."""

from __future__ import annotations

import re

# as spreadsheets write them in English, German, French, Italian, Spanish, Portuguese, Dutch
TRUE_WORDS = ("true", "wahr", "vrai", "vero", "verdadero", "verdadeiro", "waar")
FALSE_WORDS = ("false", "falsch", "faux", "falso", "onwaar")
_OF_SPREADSHEET = re.compile(r"\d+[.,]\d+(?:E\+?\d+)?|\d+E\+\d+|\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:[ T].*)?")


def changed_hint(text: str) -> str:
    """Return what to do if a spreadsheet has changed a whole number into a date or a decimal number; else ""."""
    if not _OF_SPREADSHEET.fullmatch(text):
        return ""
    return "; a spreadsheet may have changed it: read the file that JMeter wrote, or export times as whole numbers"
