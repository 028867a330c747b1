"""The section "What did the article say?" with its figure, and the check of a study's claims against all its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes

from loadbook.analyses.claims.checks import check_claims
from loadbook.analyses.claims.compute import OUTCOMES, ClaimResult, article_numbers_text, claim_title, claims_summary
from loadbook.analyses.effects.page import EffectsPage
from loadbook.core.errors import LoadbookError
from loadbook.core.metrics import get_metric
from loadbook.core.units import format_percent
from loadbook.report import palette
from loadbook.report.blocks import Block, empty_section, note
from loadbook.report.build import ensure_ingested
from loadbook.report.figures import axes, base
from loadbook.report.figures.base import ReportFigure
from loadbook.report.figures.forest import draw_forest
from loadbook.report.figures.rows import GAP_PT, Cell, Row, write_above
from loadbook.report.nodes import Break, Column, Group, HtmlOnly, Picture, Span, Strong, Table, TextOnly
from loadbook.report.ratios import RatioScale, log_ratio, ratio_scale
from loadbook.stats.results import Analysis, AnalysisRow, ErrorSummary
from loadbook.stats.text import comparison_texts
from loadbook.store.paths import Layout
from loadbook.store.tables import RunData, load_run
from loadbook.study.model import ERROR_CLAIM_KINDS, Study

NAME_LETTERS, RESULT_LETTERS, ROW_IN = 38, 36, 0.46
ARTICLE_HEAD = "the article’s claim (◇ one run, no interval)"


@dataclass(frozen=True)
class ClaimLine:
    """One claim as drawn: the claim, the article's numbers, and the outcome and numbers of this run in their colour.

    `effect` is the article's ratio minus 1 (None for claims about errors or slopes, or without two numbers). `here`
    is the comparison in this run (None without one).
    `at_ceiling`: the article's value is the rate that its tool offered; `inconclusive`: both of its values are.
    """

    title: str
    numbers: str
    effect: float | None
    at_ceiling: bool
    inconclusive: bool
    here: AnalysisRow | None
    outcome: str
    result: str
    colour: str


def claim_line(one: ClaimResult) -> ClaimLine:
    """Return the texts, effect and colour with which a claim is drawn."""
    claim, article, verdict = one.claim, one.article, one.finding.verdict
    about_ratio = claim.effective_kind not in (*ERROR_CLAIM_KINDS, "slope")
    here, result, colour = None, one.finding.short_evidence, palette.SOFT
    if verdict and verdict.kind != "invalid" and verdict.comparison.effect is not None:
        name, texts = verdict.comparison.treatment, comparison_texts(verdict)
        no_errors = ErrorSummary(name, 0, 0, 0, 0, {})
        here = AnalysisRow(name, name, "treatment", None, None, 0, 0, verdict, no_errors)  # drawn as a row
        word = palette.row_word(here, get_metric(verdict.comparison.metric))
        result = f"{palette.row_glyph(here)} {word} {texts.change} ({texts.interval_number})"
        colour = palette.VERDICTS[verdict.kind].text
    title, numbers = base.drawable(claim_title(claim), claim.treatment), article_numbers_text(claim)
    effect, outcome = article.effect if about_ratio else None, " ".join(OUTCOMES[one.finding.outcome])
    limits = article.at_ceiling, article.both_at_ceiling
    return ClaimLine(title, numbers, effect, *limits, here, outcome, result, colour)


class ClaimsFigure(ReportFigure):
    """Each published ratio as a hollow diamond without interval, and the measured one below it with an interval.

    The outcome of each claim in this run is at the right. Claims about errors or slopes are not ratios of two values:
    they are written, not drawn.
    """

    def __init__(self, results: Sequence[ClaimResult], analysis: Analysis) -> None:
        self.results, self.analysis = results, analysis
        self.lines = [claim_line(one) for one in results]

    @property
    def has_data(self) -> bool:
        """Whether at least one claim has a ratio to draw."""
        return any(line.effect is not None or line.here is not None for line in self.lines)

    def _draw(self) -> base.Drawing:
        comparisons = [line.here.verdict.comparison for line in self.lines if line.here and line.here.verdict]
        published = [line.effect for line in self.lines if line.effect is not None]
        decided = [*published, *(c.effect for c in comparisons if c.effect is not None)]
        margin = self.analysis.margin
        scale = ratio_scale([c.ci95 for c in comparisons if c.ci95], published, decided, margin)
        drawing = draw_forest(
            [_claim_row(line, scale) for line in self.lines], (f"here ({base.blocks_text(self.analysis)})",), scale,
            "change against the claim’s other value (log scale)", margin=margin, band=(-margin, margin), head_lines=1,
        )  # fmt: skip
        write_above(drawing.panels[0], 0, ARTICLE_HEAD, offset=-GAP_PT, ha="right")
        return drawing

    @property
    def caption(self) -> str:
        """Sentences on how many claims hold here (direction, then size), and which the article's numbers could show."""
        return claims_summary([one.finding for one in self.results], [one.article.could_show for one in self.results])

    @property
    def help(self) -> str:
        """Instructions for reading the figure, limited to the marks that it contains."""
        ratios = [line for line in self.lines if line.effect is not None]
        text = "◇: the article’s single value, so without an interval; "
        text += f"below it ours with its {base.level_text(self.analysis)} interval."
        if any(line.at_ceiling and not line.inconclusive for line in ratios):
            text += " An arrow: the value lies within 2\u00a0% of the rate that the tool offered, hence “at least”."
        if any(line.inconclusive for line in ratios):
            text += " A cross inside: both values lie there, so there is no evidence either way."
        if len(ratios) < len(self.lines):
            text += " Claims about errors and slopes are no ratios of two values; they stand in words."
        return text + " Shaded: the margin. Other machines, other load: compare directions and verdicts, not rates."

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: each claim's change in the article and in this run."""
        rows = []
        for line in self.lines:
            ratio = f"{format_percent(line.effect)} ({line.numbers})" if line.effect is not None else line.numbers
            rows.append(f"{line.title}: {ratio} in the article, {f'{line.outcome} {line.result}'.strip()}")
        return "Published claims against this run.", f"{'; '.join(rows)}."


def _claim_row(line: ClaimLine, scale: RatioScale) -> Row:
    """Return the row of a claim, with the article's numbers below its title and this run's below its outcome."""
    title, numbers = base.fold(line.title, NAME_LETTERS), base.fold(line.numbers, NAME_LETTERS + 8)
    outcome = Cell(line.outcome, base.fold(line.result, RESULT_LETTERS), bold=True, note_colour=line.colour)

    def draw(panels: Sequence[Axes], y: float) -> None:
        _draw_ratios(panels[0], scale, line, y)

    return Row(Cell(title, numbers, bold=True), (outcome,), draw, least_in=ROW_IN)


def _draw_ratios(panel: Axes, scale: RatioScale, line: ClaimLine, y: float) -> None:
    """Draw the article's ratio above the ratio measured in this run."""
    above, below = (y - 0.09, y + 0.09) if line.here else (y, y)
    if line.effect is not None:
        x = log_ratio(line.effect)
        panel.plot([x], [above], zorder=4, **base.marker_props(palette.PUBLISHED, 9))
        if line.inconclusive:
            panel.plot([x], [above], "x", color=palette.INK, markersize=4.2, markeredgewidth=1.1, zorder=5)
        elif line.at_ceiling:
            end = min(x + 0.09 * (scale.high - scale.low), scale.high)
            arrow = {"arrowstyle": "->", "color": palette.INK, "linewidth": 1.1, "shrinkA": 5, "shrinkB": 0}
            panel.annotate("", (end, above), (x, above), annotation_clip=False, zorder=3, arrowprops=arrow)
    if line.here and line.here.verdict:
        comparison = replace(line.here.verdict.comparison, ci_family=None)
        axes.draw_interval(panel, scale, below, line.here, comparison, tick=0.06)


OnMessage = Callable[[str], None]


@dataclass(frozen=True)
class ClaimByRun:
    """One claim and the run that checked it (None: no run has its treatments); `late`: claim newer than that run."""

    run: str | None
    result: ClaimResult
    late: bool = False


def replay_claims(layout: Layout, study: Study, on_message: OnMessage) -> list[ClaimByRun]:
    """Check every claim of a study file against the newest run that has the claim's treatments.

    `on_message` is called with lines of progress, and with the reason for each run skipped as it cannot be read.
    """
    results = [ClaimByRun(None, result) for result in check_claims(study)]
    for age, data in enumerate(_runs_newest_first(layout, study.name, on_message)):
        declared = data.study.published.claims if data.study.published else ()
        for number, result in enumerate(check_claims(study, data)):
            if result.finding.outcome != "not-run" and results[number].run is None:
                results[number] = ClaimByRun(data.run, result, late=result.claim not in declared)
            elif age == 0:
                results[number] = ClaimByRun(None, result)
        if all(one.run for one in results):
            break
    return results


def _runs_newest_first(layout: Layout, study: str, on_message: OnMessage) -> Iterator[RunData]:
    for run in reversed(layout.runs(study)):
        try:
            ensure_ingested(layout.run(study, run), on_message)
            yield load_run(layout, study, run)
        except LoadbookError as error:
            on_message(f"run {run} is passed over: {error.message}")


def assess_claims(data: RunData, analysis: Analysis, level: float) -> list[ClaimResult]:
    """Check the claims that the study contained when the run was planned."""
    return check_claims(data.study, data, analysis, level)


def section(page: EffectsPage) -> Block:
    """Show the claims of the article beside the measured results, as a section of the effects page.

    The section has the figure if a claim has a ratio, a table with one row per claim (sentence, numbers, outcome,
    check, evidence here and in the article's own numbers), and the source.
    """
    published = page.run_data.study.published
    results = [
        result for part in page.strata.values() for result in assess_claims(part.run_data, part.analysis, page.level)
    ]
    if published is None or not results:
        return empty_section("Nothing published stands beside this study.")
    figure = ClaimsFigure(results, page.analysis)
    head = Group(HtmlOnly(Picture(figure)), TextOnly(note(figure.caption))) if figure.has_data else note(figure.caption)
    rows = [
        [
            Group(Strong(claim_title(one.claim)), Break(), Span(article_numbers_text(one.claim), css="soft")),
            Group(Span(" ".join(OUTCOMES[one.finding.outcome]), css="v"), Break(), Span(one.check, css="soft")),
            one.finding.evidence,
            Group(Strong(f"{one.article.could_show.capitalize()}."), f" {one.article.sentence}"),
        ]
        for one in results
    ]
    heads = ("The article says", "Verdict", "Evidence here", "Could its own numbers show it?")
    table = Table("Claims", [Column(text, wrap=True) for text in heads], rows, css="claims")
    return Block(head, table, note(f"Source: {published.source}."))
