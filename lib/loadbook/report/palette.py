"""Colours, markers and words of verdicts, and the stylesheet.

Colours are used for verdicts only; treatments differ in position, marker shape and label. Fills have a contrast of at
least 3:1 on white and on the margin band, texts 4.5:1, and any two fills differ by a CIE Lab distance of at least 15
for readers with protan, deutan and tritan vision (tests/unit/report/test_palette.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from loadbook.core.metrics import Metric
from loadbook.stats import text as words
from loadbook.stats.results import AnalysisRow, CheckState, Hypothesis, RowKind, VerdictKind

TEMPLATES_DIR = Path(__file__).parent / "templates"
INK = "#1A1A1A"
SOFT = "#5F5F5F"
BACKGROUND = "#FFFFFF"
TINT = "#F6F6F3"
BLOCK_TINT = "#EEEEEE"
WINDOW_TINT = "#E9ECEE"
BAND = "#ECE9DC"
DOUBT_BOX = "#FBF3E2"
GRID = "#E3E3DF"
RULE = "#9A9A9A"
OTHERS = "#8F8F8F"
LINK = "#00508F"
DOUBT = "#A86F00"
DOUBT_TEXT = "#7A5200"

# variable in the stylesheet -> its colour in dark mode
DARK = {
    "paper": "#16181A", "ink": "#E8E8E6", "soft": "#ABABA8", "tint": "#212427", "grid": "#3A3E42", "rule": "#7C8084",
    "link": "#8CBEF0", "doubt-box": "#352B12", "doubt-text": "#F0C674",
}  # fmt: skip


@dataclass(frozen=True)
class VerdictStyle:
    """Colours, glyph and matplotlib marker of one kind of rows; `hollow` markers are white with a dark edge."""

    fill: str
    text: str
    glyph: str
    marker: str
    hollow: bool = False

    @property
    def face(self) -> str:
        """The fill colour of the marker."""
        return BACKGROUND if self.hollow else self.fill

    @property
    def edge(self) -> str:
        """The colour of the marker's edge and of the interval."""
        return self.fill

    @property
    def dark_text(self) -> str:
        """The colour of the text in dark mode: mixed with 60 % white."""
        channels = (int(self.text[at : at + 2], 16) for at in (1, 3, 5))
        return "#" + "".join(f"{round(0.4 * channel + 0.6 * 255):02X}" for channel in channels)


_EQUIVALENT = VerdictStyle("#00573F", "#00573F", "■", "s")
VERDICTS: dict[VerdictKind, VerdictStyle] = {
    "better": VerdictStyle("#0067B9", "#0067B9", "▲", "^"),
    "worse": VerdictStyle("#B93A00", "#B93A00", "▼", "v"),
    "small": VerdictStyle("#B05FA5", "#8E4385", "◆", "D"),
    "no-loss": _EQUIVALENT,  # verdict of one-sided questions, which never has "equivalent" on the same page
    "equivalent": _EQUIVALENT,
    "undecided": VerdictStyle("#7F7F7F", "#5F5F5F", "●", "o"),
    "invalid": VerdictStyle(INK, INK, "✕", "", hollow=True),
}
BASELINE = VerdictStyle(INK, INK, "●", "o")
AA = VerdictStyle(INK, SOFT, "○", "o", hollow=True)
CONTROL = VerdictStyle(INK, SOFT, "□", "s", hollow=True)
PUBLISHED = VerdictStyle(INK, SOFT, "◇", "D", hollow=True)
FAILED_GLYPH = "✕"
DOUBT_GLYPH = "!"
# markers for a second, third, ... treatment with the same verdict; × is reserved for excluded trials
SPARE_MARKERS = ("P", "p", "h", "<", ">", "*", "d", "8")

VERDICT_WORDS = {
    "small": "real, but small",
    "no-loss": "no loss beyond margin",
    "equivalent": "equivalent",
    "undecided": "undecided",
    "invalid": "invalid",
}


def verdict_word(kind: VerdictKind, metric: Metric, hypothesis: Hypothesis = "difference") -> str:
    """Return the word of a verdict after its glyph, by metric ("faster", "shorter") and hypothesis."""
    if kind == "worse" and hypothesis == "non-inferiority":
        return "loses more"
    if kind not in ("better", "worse"):
        return VERDICT_WORDS[kind]
    up = (kind == "better") == (words.direction(metric.name) == "higher")
    return words.direction_word(metric.name, 1.0 if up else -1.0)


def row_kind(row: AnalysisRow) -> str:
    """Return the kind of a row in the stylesheet: that of its verdict, or "check"."""
    return row.verdict.kind if row.verdict and row.kind == "treatment" else "check"


def row_style(row: AnalysisRow) -> VerdictStyle:
    """Return the style of a row: of its verdict, or the fixed style of the baseline or harness check."""
    if row.kind != "treatment":
        return {"baseline": BASELINE, "aa": AA, "control": CONTROL}[row.kind]
    return VERDICTS[row.verdict.kind if row.verdict else "invalid"]


def check_word(kind: RowKind, state: CheckState | None) -> str:
    """Return the word of a harness check in this state: "passed", or "wide" of an A/A arm wider than the margin."""
    inconclusive = "wide" if kind == "aa" else "too noisy"
    words = {"inconclusive": inconclusive, "unchecked": "not judged"}
    return words.get(state or "unchecked", state or "")


def row_word(row: AnalysisRow, metric: Metric) -> str:
    """Return the word of a row: its verdict, or the state of a harness check, such as "passed"."""
    if row.kind == "baseline":
        return "reference"
    if row.kind in ("aa", "control"):
        return check_word(row.kind, row.check_state)
    asks: Hypothesis = "non-inferiority" if row.verdict and row.verdict.one_sided_bounds else "difference"
    return verdict_word(row.verdict.kind if row.verdict else "invalid", metric, asks)


def row_glyph(row: AnalysisRow) -> str:
    """Return the glyph before a row's word; a failed harness check has a cross."""
    return FAILED_GLYPH if row.passed is False else row_style(row).glyph


def row_text_colour(row: AnalysisRow) -> str:
    """Return the colour of a row's word; a failed harness check has the colour of plain text."""
    return INK if row.passed is False else row_style(row).text


@cache
def _stylesheet() -> str:
    """Return the CSS of all pages, which is the same in JupyterLab and in exported HTML."""
    names = {
        "paper": BACKGROUND, "ink": INK, "soft": SOFT, "tint": TINT, "grid": GRID, "rule": RULE, "link": LINK,
        "doubt-box": DOUBT_BOX, "doubt-text": DOUBT_TEXT, "picture": BACKGROUND, "band": BAND, "axis": INK,
    }  # fmt: skip
    colours = "".join(f"--{name}: {colour}; " for name, colour in names.items())
    verdicts = "".join(
        f".lb .v-{kind} {{ color: {style.text}; }} .lb .bar-{kind} {{ --bar: {style.fill}; }}\n"
        for kind, style in VERDICTS.items()
    )
    return f":root {{ {colours}}}\n" + (TEMPLATES_DIR / "report.css").read_text(encoding="utf-8") + verdicts


@cache
def page_stylesheet() -> str:
    """Return the CSS of exported pages, with dark colours for readers who prefer dark mode.

    Figures and strips keep their light background, because the colours of their marks are fixed.
    """
    colours = "".join(f"--{name}: {colour}; " for name, colour in DARK.items())
    verdicts = "".join(f".lb .v-{kind} {{ color: {style.dark_text}; }} " for kind, style in VERDICTS.items())
    figures = ".lb figure .scroll { --paper: var(--picture); background-color: var(--paper); }"
    dark = f"html {{ color-scheme: dark; }} :root {{ {colours}}} {verdicts}{figures}"
    return f"{_stylesheet()}@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n"


def notebook_style() -> str:
    """Return the CSS as a style element for the first block of a notebook; exported pages have it in their head."""
    return f"<style data-notebook>\n{_stylesheet()}</style>\n"
