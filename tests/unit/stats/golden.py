"""Every class of verdict in every wording, made by the engine: `python tests/unit/stats/golden.py` writes the table.

What it writes is read by a person against the rules of wording before it is committed; the test only compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from loadbook.stats.error_text import errors_sentence
from loadbook.stats.phrases import row_phrase, terminal_verdict, verdict_parts
from loadbook.stats.results import AnalysisRow, ErrorSummary, Verdict
from loadbook.stats.text import best_sentence
from loadbook.stats.verdict import decide_verdict
from trial_frames import comparison

GOLDEN = Path(__file__).with_name("golden_sentences.txt")
METRICS = {
    "ok_per_s": "higher",
    "latency": "lower",
    "errors": "lower",
    "joules": "higher",
    "cpu_per_response.web": "lower",
}
SHAPES = {
    "up": {"effect": 0.060, "low": 0.051, "high": 0.068},
    "down": {"effect": -0.047, "low": -0.056, "high": -0.038},
    "up, within the margin": {"effect": 0.010, "low": 0.004, "high": 0.017},
    "down, within the margin": {"effect": -0.010, "low": -0.017, "high": -0.004},
    "around zero, within the margin": {"effect": 0.005, "low": -0.006, "high": 0.017, "ci90": (-0.004, 0.015)},
    "around zero": {"effect": 0.010, "low": -0.005, "high": 0.026, "blocks": 10, "sd_log": 0.0205},
    "around zero, almost decided": {"effect": 0.013, "low": -0.001, "high": 0.028, "blocks": 10, "sd_log": 0.0165},
    "around zero, noisy": {"effect": 0.010, "low": -0.05, "high": 0.08, "blocks": 10, "sd_log": 0.1},
    "up if looked at alone": {
        "effect": 0.03,
        "low": 0.004,
        "high": 0.055,
        "p": 0.02,
        "p_adjusted": 0.08,
        "family_size": 7,
        "sd_log": 0.035,
    },
    "up, in a family": {"effect": 0.060, "low": 0.051, "high": 0.068, "p_adjusted": 0.003, "family_size": 7},
    "up, at a level of 99 %": {"effect": 0.060, "low": 0.051, "high": 0.068, "level": 0.99},
    "up, a hundredth of a percent": {"effect": 0.001, "low": 0.0001, "high": 0.0019},
    "up, fivefold": {"effect": 4.02, "low": 3.8, "high": 4.3},
    "wide, hardly within the margin": {"effect": 0.02, "low": -0.03, "high": 0.07, "ci90": (-0.0188, 0.06)},
    "up, second look of three": {
        "effect": 0.060,
        "low": 0.049,
        "high": 0.070,
        "level": 0.9779,
        "interim_analysis": (2, 3),
    },
    "around zero, blocks added": {"effect": 0.010, "low": -0.005, "high": 0.026, "sd_log": 0.0205, "added_blocks": 5},
    "four blocks": {"blocks": 4},
    "incomplete": {"blocks": 8, "excluded": 3},
}
ONE_SIDED = (
    "up",
    "down",
    "down, within the margin",
    "around zero, within the margin",
    "around zero, noisy",
    "wide, hardly within the margin",
    "up, second look of three",
    "four blocks",
)


class Case(NamedTuple):
    """One verdict, how it came about, and its two wordings."""

    name: str
    verdict: Verdict
    report: str
    line: str


def cases() -> Iterator[Case]:
    """Every shape of an interval on every kind of metric, with and without a name of what it is compared with."""
    for metric, better in METRICS.items():
        for shape in SHAPES:
            yield _case(f"{metric}: {shape}", decide_verdict(_numbers(metric, shape), 0.02, better))  # type: ignore[arg-type]
        for shape in ONE_SIDED:
            found = decide_verdict(_numbers(metric, shape), 0.02, better, hypothesis="non-inferiority")  # type: ignore[arg-type]
            yield _case(f"{metric}: {shape}, asked for a loss", found)
    for shape in SHAPES:
        yield _case(f"{shape}, compared with Y", decide_verdict(_numbers("ok_per_s", shape), 0.02), "Y")
    for shape in ONE_SIDED:
        found = decide_verdict(_numbers("ok_per_s", shape), 0.02, hypothesis="non-inferiority")
        yield _case(f"{shape}, asked for a loss, compared with Y", found, "Y")
    for shape in ("up", "around zero, within the margin", "around zero, noisy"):
        yield _case(f"{shape}, no margin", decide_verdict(_numbers("ok_per_s", shape), 0.0))
    why = "it answers differently (24 bytes where the baseline sends 4)"
    yield _case("a reason", decide_verdict(_numbers("ok_per_s", "up"), 0.02, reason=why))


def _numbers(metric: str, shape: str):
    return comparison(metric=metric, **SHAPES[shape])  # type: ignore[arg-type]


def _case(name: str, verdict: Verdict, against: str | None = None) -> Case:
    block_s = 433.3 if verdict.forecast else None
    parts = verdict_parts(verdict, against=against, block_s=block_s)
    return Case(name, verdict, f"X{parts.after_name}", terminal_verdict(verdict, against))


def others() -> Iterator[tuple[str, str]]:
    """Sentences on errors, on errors and rate together, and on the best of several."""
    base, clean = _errors("baseline", 0), _errors("none", 0)
    bursts = {"errors": 1215, "by_class": {"errors_timeout": 1200, "errors_read": 1, "errors_driver": 14}}
    more, one = _errors("more", 9, p_blocks=0.004, **bursts), _errors("undecided", 1, errors=3)  # type: ignore[arg-type]
    doubted = _errors("more", 6, p_blocks=0.0625, errors=9)
    rate = _errors("more", 12, errors=40, rate_ratio=4.2, rate_ci95=(2.0, 8.8))
    fewer = _errors("fewer", 0)
    worse_base = _errors("baseline", 9, errors=900)
    up, even = (
        decide_verdict(_numbers("ok_per_s", "up"), 0.02),
        decide_verdict(_numbers("ok_per_s", "around zero, noisy"), 0.02),
    )
    down = decide_verdict(_numbers("ok_per_s", "down"), 0.02, hypothesis="non-inferiority")
    yield "no errors", errors_sentence(clean, base)
    yield "more", errors_sentence(more, base)
    yield "more, compared with Y", errors_sentence(more, base, "Y")
    yield "more, but not block by block", errors_sentence(doubted, base)
    yield "more per request", errors_sentence(rate, _errors("baseline", 12, errors=10))
    yield "fewer", errors_sentence(fewer, worse_base)
    yield "fewer, compared with Y", errors_sentence(fewer, worse_base, "Y")
    yield "one trial with errors", errors_sentence(one, base)
    yield "not measured", errors_sentence(_errors("none", 0, trials=0), base)
    yield "more errors and faster", row_phrase(_row(up, more), base)
    yield "more errors and undecided", row_phrase(_row(even, more, "Y"), base)
    yield "fewer errors and a loss", row_phrase(_row(down, fewer), worse_base)
    yield "one trial with errors and faster", row_phrase(_row(up, one), base)
    yield "best", best_sentence([], "X") or ""
    yield "tied, ahead", best_sentence(["X", "Y", "Z"], None, True) or ""
    yield "tied", best_sentence(list("UVWXYZ"), None) or ""


def _errors(kind: str, failing: int, trials: int = 12, **more) -> ErrorSummary:
    share = None if failing or not trials else 1 - 0.05 ** (1 / trials)
    known = {"errors": 0, "requests": 400_000, "by_class": {}, "upper_share": share}
    return ErrorSummary("x", trials, failing, kind=kind, **(known | more))  # type: ignore[arg-type]


def _row(verdict: Verdict, errors: ErrorSummary, against: str | None = None) -> AnalysisRow:
    return AnalysisRow("x", "X", "treatment", 1.0, 0.1, 12, 12, verdict, errors, reference_label=against)


def table() -> str:
    """Return the whole table as text, one sentence a line."""
    lines = []
    for case in cases():
        flags = "".join(f"\n  flag    {flag}" for flag in case.verdict.comparison.flags)
        lines.append(
            f"{case.name}\n  is      {case.verdict.kind}\n  report  {case.report}\n  short   {case.line}{flags}"
        )
    lines += [f"{name}\n  report  {text}" for name, text in others()]
    return "\n".join(lines).replace("\u00a0", " ") + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(table(), encoding="utf-8")
