"""Figure 12, a study through its runs.

In five seconds: did the conclusion change, and what else changed with it?
"""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from loadbook.analyses.history import text as words
from loadbook.analyses.history.compute import EffectSeries, StudyHistory
from loadbook.core.metrics import get_metric
from loadbook.core.units import join_words
from loadbook.report import palette
from loadbook.report.figures import scales
from loadbook.report.figures.common import NARROW_IN, WIDE_IN, Sheet, in_house_style, quantity, size_pt
from loadbook.report.figures.history_axis import AIR, Axis, axis
from loadbook.report.figures.history_panel import draw_letters, draw_panel, goes_beyond
from loadbook.report.figures.text import counted, drawable, line_in, pushed_apart, shortened, text_width, wrap
from loadbook.stats.text import margin_text

Marks = Mapping[str, tuple[str, ...]]
LEFT_IN, RIGHT_IN, TALL_IN, NARROW_TALL_IN, GAP_IN, FOOT_IN = 0.72, 0.3, 1.15, 1.05, 0.12, 0.52
PAUSE_IN = 0.18
HEAD_IN = 0.3  # the numbers of the marks
MOST_PANELS, MOST_MARKS = 12, 8


@in_house_style
def draw(history: StudyHistory, marks: Marks, narrow: bool = False) -> Figure:
    """Draw each comparison's effect by date, with the levels between changes, and lines where conditions changed.

    `marks` has run -> what is recorded otherwise than in the run before it on the same hosts, in words.
    """
    shown, known = panels(history), _axis(history)
    key = _key_lines(history, marks, known, narrow)
    title, tall = line_in(size_pt(narrow), 2 if narrow else 1) + 0.09, NARROW_TALL_IN if narrow else TALL_IN
    each = title + tall + GAP_IN
    foot = FOOT_IN + (PAUSE_IN if known.pauses else 0.0)
    sheet = Sheet(narrow, HEAD_IN + each * len(shown) + foot + line_in(size_pt(narrow), len(key)) + 0.04)
    left, right = LEFT_IN, (NARROW_IN if narrow else WIDE_IN) - RIGHT_IN
    tops = [HEAD_IN + number * each + title for number in range(len(shown))]
    for course, top in zip(shown, tops, strict=True):
        panel = sheet.panel(left, top, right, top + tall)
        _title(sheet, course, top - title, (left, right))
        draw_panel(panel, course, known, history.margin, tall)
        draw_letters(sheet, panel, course, (right, top, tall))
        panel.set_xticks([])
    _lines(
        sheet, _marked(marks, known), known, (left, right), [(HEAD_IN - 0.06, HEAD_IN), *((t, t + tall) for t in tops)]
    )
    _dates(sheet, known, (left, right, tops[-1] + tall))
    for number, line in enumerate(key):
        at = sheet.height - line_in(sheet.size, len(key) - number) - 0.04
        sheet.text(0.08, at, line, size=sheet.size - 0.6, va="top")
    return sheet.figure


def panels(history: StudyHistory) -> list[EffectSeries]:
    """Return the comparisons that are drawn: all, or of very many those that alarm or changed, then the first ones."""
    order = sorted(history.series, key=lambda c: not (c.changed_segments or (c.alarm and c.alarm.raised)))
    kept = order[:MOST_PANELS]
    return [course for course in history.series if course in kept]


def _axis(history: StudyHistory) -> Axis:
    there = {point.run for course in history.series for point in course.points}
    return axis({seen.run: seen.started for seen in history.runs if seen.run in there})


def _title(sheet: Sheet, course: EffectSeries, y: float, edges: tuple[float, float]) -> None:
    """Write the comparison's name, and at the right the level at which it stands, or that the newest run is worse."""
    now = words.current_segment(course)
    said = words.level_text(now) if now else "no run counts"
    alarm = bool(course.alarm and course.alarm.raised)
    size, line = sheet.size, line_in(sheet.size)
    width = text_width(said, size - 0.6) if not sheet.narrow else 0.0
    flag = "▼ newest run worse  " if alarm else ""
    room = edges[1] - 0.08 - width - text_width(flag, size, bold=True)
    name = shortened(drawable(course.label, course.treatment), room - 0.2, size, bold=True)
    sheet.text(0.08, y + line / 2, name, bold=course.kind == "treatment")
    at = edges[1] - width
    if flag:
        sheet.text(at, y + line / 2, flag, bold=True, colour=palette.VERDICTS["worse"].text, at="right")
    where = (0.08, y + 1.5 * line, "left") if sheet.narrow else (edges[1], y + line / 2, "right")
    sheet.text(where[0], where[1], said, size=size - 0.6, colour=palette.SOFT, at=where[2])  # type: ignore[arg-type]


def _lines(
    sheet: Sheet, marked: list[str], known: Axis, edges: tuple[float, float], spans: list[tuple[float, float]]
) -> None:
    """Draw a hairline through all panels for each mark and each cut pause, with its number or length on top."""
    left, right = edges
    places = [_inch(known.between(run), left, right) for run in marked]
    for at in places:
        for span in spans:
            sheet.line([at, at], span, palette.SOFT, 0.7)
    for at, number in _numbers(places, sheet.size - 0.6, (left, right)):
        sheet.text(at, HEAD_IN - 0.14, number, size=sheet.size - 0.6, at="center", bold=True)
    for place, said in known.pauses:
        at = _inch(place, left, right)
        for top, bottom in spans[1:]:
            sheet.box(at - 0.05, top, at + 0.05, bottom, palette.BLOCK_TINT)
        sheet.text(at, spans[-1][1] + 0.1, f"// {said}", size=sheet.size - 1.2, at="center", colour=palette.SOFT)


def _numbers(places: list[float], size: float, edges: tuple[float, float]) -> list[tuple[float, str]]:
    """Return where the numbers of these lines stand: pushed apart, or of very many those that do not touch."""
    texts = [(at, str(number)) for number, at in enumerate(places, 1)]
    widths = [text_width(text, size, bold=True) + 0.05 for _, text in texts]
    if sum(widths) <= edges[1] - edges[0]:
        apart = pushed_apart(places, widths, edges[0] - 0.1, edges[1] + 0.1)
        return [(at, text) for at, (_, text) in zip(apart, texts, strict=True)]
    return [texts[k] for k in scales.fit(texts, lambda at: at - edges[0], size, edges[1] - edges[0])]


def _inch(at: float, left: float, right: float) -> float:
    """Return where a place of the axis of dates lies on the sheet."""
    return left + (right - left) * (at + AIR) / (1 + 2 * AIR)


def _marked(marks: Marks, known: Axis) -> list[str]:
    return [run for run in known.places if marks.get(run)]


def _dates(sheet: Sheet, known: Axis, place: tuple[float, float, float]) -> None:
    left, right, bottom = place
    down = PAUSE_IN if known.pauses else 0.04
    for at, label in known.ticks((right - left) / (1 + 2 * AIR), sheet.size):
        x = _inch(at, left, right)
        sheet.line([x, x], [bottom, bottom + 0.05], palette.RULE, 0.8)
        sheet.text(x, bottom + down + 0.1, label, colour=palette.SOFT, at="center")
    sheet.text((left + right) / 2, bottom + down + 0.3, known.title, colour=palette.SOFT, at="center")


def _key_lines(history: StudyHistory, marks: Marks, known: Axis, narrow: bool) -> list[str]:
    """Return what each numbered line stands for, in lines that fit."""
    width, size = (NARROW_IN if narrow else WIDE_IN) - 0.16, size_pt(narrow) - 0.6
    found = _marked(marks, known)
    lines = []
    for number, run in enumerate(found[:MOST_MARKS], 1):
        said = drawable(f"{number}  {words.date_text(known.times[run])}: {'; '.join(marks[run])}", run)
        lines += wrap(said, width, size, lines=3 if narrow else 2).split("\n")
    if len(found) > MOST_MARKS:
        lines.append(f"and {counted(len(found) - MOST_MARKS, 'other change')} of conditions: see the table of runs")
    return lines


def answer(history: StudyHistory, marks: Marks) -> str:
    """Return whether the newest run is worse than its past, and whether effects changed."""
    return words.headline(history)


def how(history: StudyHistory, marks: Marks) -> str:
    """Return how the figure is read, naming only what it has."""
    points = [point for course in history.series for point in course.points]
    said = [
        f"One mark is one run, in the colour of its verdict, with the interval of its report: the change in "
        f"{quantity(get_metric(history.metric))}, a ratio on a log scale, each panel with a range of its own",
        "ink line: the mean of the runs of one level (random effects)",
    ]
    if any(course.alarm for course in history.series):
        said.append("short line at the newest run: beyond it, that run would raise an alarm")
    if marks:
        said.append("numbered lines: recorded conditions changed")
    if len({point.hosts for point in points}) > 1:
        said.append("letters: hosts, whose runs are never held together")
    if any(not point.is_included for point in points):
        said.append("hollow grey, or a cross at the foot: the run does not count, for the reason in the table")
    if _axis(history).pauses:
        said.append("grey strip: a longer pause, cut")
    if any(goes_beyond(course, history.margin) for course in panels(history)):
        said.append("arrow head: it goes on beyond the panel")
    said.append(f"shaded: differences below ±{margin_text(history.margin)}")
    left = len(history.series) - len(panels(history))
    drawn = f" {counted(left, 'other comparison')} are not drawn; the table has them." if left else ""
    return f"{'; '.join(said)}. {words.method_sentence(history)}{drawn}"


def alt(history: StudyHistory, marks: Marks) -> str:
    """Return the answer, and of every comparison where it stands and what changed."""
    found = _marked(marks, _axis(history))
    told = [f"{course.label} {words.series_sentence(course)}" for course in history.series]
    days = [words.date_text(seen.started) for seen in history.runs if seen.run in found]
    changed = [f"Conditions changed with the runs of {join_words(days)}."] if found else []
    head = f"Effects of {words.run_count_text(len(_axis(history).places))} by date."
    return " ".join([head, answer(history, marks), *told, *changed])
