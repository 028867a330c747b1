"""Figure 8, and the effect plot of ladders and of the best arm: marks and words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from effort import some
from loadbook.analyses.effects.figure import EffectsFigure, NonInferiorityFigure
from loadbook.report import verdicts
from loadbook.report.figures.svg import to_svg
from loadbook.report.nodes import to_text
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.verdict import decide_verdict
from mock_analysis import mock


def one_sided(case: str = "plain", better: str = "higher", margin: float = 0.02) -> Analysis:
    """The invented study, asked whether anything is lost."""
    m = mock(case)

    def requested(row: AnalysisRow) -> AnalysisRow:
        if row.kind != "treatment" or row.verdict is None:
            return row
        found = decide_verdict(
            row.verdict.comparison,
            margin,
            better,  # type: ignore[arg-type]
            reason=row.verdict.reason,
            hypothesis="non-inferiority",
        )
        return replace(row, verdict=replace(found, decimals=1))

    return replace(m.analysis, hypothesis="non-inferiority", margin=margin, rows=tuple(map(requested, m.analysis.rows)))


def words(figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


@pytest.mark.parametrize(
    "case", some(["plain", "wide_interval", "long_names", "japanese", "all_invalid", "five_blocks"], 3)
)
def test_non_inferiority_figure_texts_lie_within_the_figure(case: str) -> None:
    figure = NonInferiorityFigure(one_sided(case)).draw()
    assert to_svg(figure) == to_svg(NonInferiorityFigure(one_sided(case)).draw())
    renderer = FigureCanvasAgg(figure).get_renderer()
    spans = [text.get_window_extent(renderer) for text in figure.texts if text.get_text()]
    assert all(figure.bbox.x0 - 1 <= box.x0 and box.x1 <= figure.bbox.x1 + 1 for box in spans)


def test_non_inferiority_figure_marks_the_deciding_bound() -> None:
    analysis = one_sided()
    drawn = NonInferiorityFigure(analysis).draw()
    ticks = [line.get_color() for line in drawn.axes[0].lines if line.get_linewidth() > 3 and line.get_color()]
    compared = [r for r in analysis.of_kind("treatment") if r.verdict.one_sided_bounds]
    assert len(ticks) == len(compared)
    printed = words(drawn)
    assert any(text.startswith("at worst −") for text in printed)
    assert {"■ no loss beyond 2\u00a0%", "▼ loses more than 2\u00a0%"} <= set(printed)
    assert "● undecided" in words(NonInferiorityFigure(one_sided("all_undecided")).draw())
    assert "largest loss accepted, 2\u00a0%, declared before" in printed


def test_non_inferiority_figure_draws_bounds_beyond_the_axis_as_arrows() -> None:
    plain = one_sided()
    first = next(r for r in plain.of_kind("treatment") if r.verdict.one_sided_bounds)
    far = replace(first, verdict=replace(first.verdict, kind="no-loss", one_sided_bounds=(2.3, 2.6)))
    analysis = replace(plain, rows=tuple(far if r is first else r for r in plain.rows))
    lines = NonInferiorityFigure(analysis).draw().axes[0].lines
    assert (
        sum(line.get_linewidth() == 3.4 for line in lines)
        == sum(line.get_linewidth() == 3.4 for line in NonInferiorityFigure(plain).draw().axes[0].lines) - 1
    )
    assert [line.get_marker() for line in lines].count(">") == 1
    assert "arrow head" in NonInferiorityFigure(analysis).help and "arrow head" not in NonInferiorityFigure(plain).help


@pytest.mark.parametrize(("better", "side"), [("higher", -1), ("lower", 1)])
def test_non_inferiority_figure_band_lies_on_the_loss_side(better: str, side: int) -> None:
    analysis = one_sided("latency" if better == "lower" else "plain", better)
    (band,) = [p for p in NonInferiorityFigure(analysis).draw().axes[0].patches if p.get_facecolor()[:3] != (1, 1, 1)]
    middle = band.get_x() + band.get_width() / 2  # type: ignore[attr-defined]
    assert middle * side > 0
    assert min(abs(band.get_x()), abs(band.get_x() + band.get_width())) == pytest.approx(0)  # type: ignore[attr-defined]


def test_non_inferiority_figure_rows_state_trials_with_errors() -> None:
    analysis = one_sided()
    rows = tuple(
        replace(r, errors=replace(r.errors, kind="more", trials_with_errors=9, trials=12))
        if r.treatment == "use-epoll"
        else r
        for r in analysis.rows
    )
    with_errors = replace(analysis, rows=rows)
    assert any("more errors: 9 of 12 trials" in text for text in words(NonInferiorityFigure(with_errors).draw()))


def test_non_inferiority_figure_texts_state_the_bounds() -> None:
    figure = NonInferiorityFigure(one_sided())
    expected = "1 of 6 treatments loses more than 2 %, no loss beyond 2 % in 4, 1 not compared."
    assert figure.caption.replace("\u00a0", " ") == expected
    assert "declared before the run" in figure.help
    assert "at worst −" in figure.alt_text and "(one-sided 95\u00a0%)" in figure.alt_text
    assert NonInferiorityFigure(one_sided("all_invalid")).caption == "No treatment could be compared."


def test_non_inferiority_table_uses_the_wording_of_losses() -> None:
    analysis = one_sided()
    table = verdicts.verdict_table(analysis, {})
    heads = [column.header for column in table.columns]
    assert heads[:4] == ["Treatment", "Verdict", "At worst, %", "Change, %"]
    assert not {"p", "p, adj."} & set(heads)  # they answer another question
    assert "■ no loss beyond margin" in {str(row[1]) for row in table.rows}
    assert any("loses more" in to_text(count) for count in verdicts.summarise_answer(analysis).counts)
    assert verdicts.summarise_answer(analysis).kind == "worse"


def laddered(contrasts: str) -> Analysis:
    m = mock("plain")
    names = [r.treatment for r in m.analysis.rows]
    rows = tuple(
        replace(r, reference_label=m.analysis.rows[max(0, names.index(r.treatment) - 1)].label)
        if r.kind == "treatment"
        else r
        for r in m.analysis.rows
    )
    best = {"best": "baseline"} if contrasts == "best" else {}
    return replace(m.analysis, contrasts=contrasts, rows=rows, **best)  # type: ignore[arg-type]


def test_adjacent_contrasts_state_the_treatment_above_as_reference() -> None:
    analysis = laddered("adjacent")
    assert any("against the treatment above it" in t.replace("\n", " ") for t in words(EffectsFigure(analysis).draw()))
    assert EffectsFigure(analysis).help.startswith(
        "Each treatment against the one above it, the first and the checks against baseline; "
    )
    assert "is faster than baseline by 6" in verdicts.verdict_lines(analysis)[0].text
    assert [c.header for c in verdicts.verdict_table(analysis, {}).columns][2] == "Against"


def test_contrasts_with_the_best_name_the_leading_treatment() -> None:
    analysis = laddered("best")
    note = "its own gain is likely a little overstated"
    assert EffectsFigure(analysis).caption == f"baseline is ahead of every other treatment; {note}."
    assert any("against the one observed best" in t.replace("\n", " ") for t in words(EffectsFigure(analysis).draw()))
    assert verdicts.summarise_answer(analysis).headline.endswith(f"{note}.")


def test_error_table_has_both_p_values_but_none_for_harness_checks() -> None:
    table = verdicts.verdict_table(mock("plain").analysis, {})
    heads = [column.header for column in table.columns]
    at = heads.index("p")
    assert heads[at + 1] == "p, adj."
    assert [row[at + 1] for row in table.rows][-2:] == ["check", "check"]
    assert all(row[at] != "check" for row in table.rows)
    alone = [column.header for column in verdicts.verdict_table(mock("one_treatment").analysis, {}).columns]
    assert "p" in alone


def test_page_states_errors_before_rates() -> None:
    analysis = mock("plain").analysis
    failing = replace(analysis.rows[1].errors, kind="more", trials=12, trials_with_errors=9, errors=90)
    rows = (analysis.rows[0], replace(analysis.rows[1], errors=failing), *analysis.rows[2:])
    analysis = replace(analysis, rows=rows)
    answer, line = verdicts.summarise_answer(analysis), verdicts.verdict_lines(analysis)[0]
    assert answer.errors[0].startswith(f"{rows[1].label}: more errors: 9 of 12 trials had errors")
    assert line.text.startswith(": more errors: 9 of 12 trials had errors (90 in all) against 0 of 12 of the baseline.")
    assert " Given that, it is faster by " in line.text
