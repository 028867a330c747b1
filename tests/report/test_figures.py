"""Every figure at both widths with the hard cases of report.md section 9; all data is mock data (mockdata.py)."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from figure_legibility import must_be_legible
from loadbook.analyses.claims import figure as claims
from loadbook.analyses.claims import figure as published
from loadbook.analyses.effects import figure as effects
from loadbook.analyses.effects import pairs
from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.figures import axes as scales
from loadbook.report.figures import base, cores, errors, latency, order, overlay, traces, tracks, validity
from loadbook.report.figures import base as lettering
from loadbook.report.page import figure_module
from loadbook.stats.diagnostics import find_outliers
from loadbook.stats.text import row_texts
from mock_analysis import CASES, Mock, judged, mock

FIGURES = ("effects", "order", "pairs", "errors", "latency", "traces", "gates", "published", "overlay", "cores")
FEWER = ("plain", "all_invalid", "one_treatment", "sixteen", "long_names", "japanese", "five_blocks", "many_excluded")
HARD = {
    **dict.fromkeys(("effects", "order"), CASES),
    **dict.fromkeys(FIGURES[2:], FEWER),
    **dict.fromkeys(("traces", "overlay", "cores"), (*FEWER, "no_monitor")),
    "gates": (*FEWER, "no_monitor"),
}
PAIRS = [(figure, case) for figure in FIGURES for case in HARD[figure]]
FORBIDDEN = re.compile(r"significant|\bsame\b|proves?\b|no effect|\bnan\b|\bNone of\b(?! the)", re.IGNORECASE)


def data_of(figure: str, m: Mock) -> tuple:
    first = next(r.treatment for r in m.analysis.rows if r.kind == "treatment")
    return {
        "effects": (m.analysis,),
        "order": (m.analysis, m.values, m.reasons),
        "pairs": (m.analysis, first, m.values),
        "errors": (m.analysis, m.errors, m.requests),
        "latency": (m.analysis, m.panels),
        **dict.fromkeys(("traces", "overlay"), (m.traces, m.trials, m.hosts, m.labels)),
        "cores": (m.traces, m.trials, m.hosts, m.labels, "www"),
        "gates": (m.trials, m.problems, m.titles, m.labels),
        "published": (judged(m), m.analysis),
    }[figure]


def module_of(figure: str):
    return figure_module(figure)


def draw(figure: str, case: str, narrow: bool):
    return module_of(figure).draw(*data_of(figure, mock(case)), narrow=narrow)


def texts(figure) -> list[Text]:
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]


def words(figure) -> list[str]:
    return [t.get_text() for t in texts(figure)]


def boxes(figure):
    figure.draw_without_rendering()
    return [(t, t.get_window_extent()) for t in texts(figure)]


@pytest.mark.parametrize(("figure", "case"), PAIRS)
@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
def test_figure_texts_are_whole_apart_and_large_enough(figure, case, narrow):
    drawn = draw(figure, case, narrow)
    assert drawn.get_figwidth() == (base.NARROW_IN if narrow else base.WIDE_IN)
    must_be_legible(drawn)


@pytest.mark.parametrize(("figure", "case"), PAIRS)
def test_figure_captions_are_complete_and_match_the_data(figure, case):
    module, data = module_of(figure), data_of(figure, mock(case))
    answer, how, alt = module.answer(*data), module.how(*data), module.alt(*data)
    assert answer.endswith(".") and len(answer) > 15
    assert how.endswith(".")
    assert len(alt) > 40 and answer in alt
    own = [w for label in mock(case).labels.values() for w in label.split()]
    for text in (answer, how, alt):
        said = FORBIDDEN.search(text)
        assert said is None or said.group() in own, text


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
def test_figure_bytes_are_reproducible_under_any_style(figure, narrow):
    import matplotlib as mpl

    first = base.to_svg(draw(figure, "plain", narrow))
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "none", "text.parse_math": True}):
        second = base.to_svg(draw(figure, "plain", narrow))
    assert first == second
    assert first.startswith(b"<?xml") and b"<text" not in first and b"<script" not in first
    assert len(first) < (300_000 if figure == "overlay" else 150_000)  # a line for every trial and resource


def test_figure_lines_of_long_trials_keep_their_peaks():
    times = np.arange(10_000) / 100
    values = np.where(times < 50, 0.5, 0.6) + np.random.default_rng(3).normal(0, 0.01, len(times))
    values[[1234, 8765]] = 1.0, 0.0
    values[3000:3300] = np.nan
    kept = tracks.extremes(times, values, 1.0)
    assert {1234, 8765} <= set(kept) and len(kept) <= 200
    assert list(kept) == sorted(kept)
    assert np.isnan(values[kept]).any() and np.nanmin(values[kept]) == 0.0
    assert tracks.extremes(times[:0], values[:0], 1.0).size == 0


def test_figures_leave_no_pyplot_figure_open():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    for figure in FIGURES:
        draw(figure, "plain", False)
    assert plt.get_fignums() == before


# figure 1


def test_effects_figure_lists_rows_in_order_of_the_analysis():
    m = mock("plain")
    found = {t.get_text(): t.get_window_extent().y0 for t, _ in boxes(effects.draw(m.analysis))}
    shown = [found[r.label] for r in (*m.analysis.of_kind("treatment"), *m.analysis.of_kind("aa", "control"))]
    assert shown == sorted(shown, reverse=True)


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("case", ["plain", "latency", "huge_effects", "tiny_effects"])
def test_effects_figure_prints_the_numbers_of_the_table(case, narrow):
    m = mock(case)
    said = words(effects.draw(m.analysis, narrow=narrow))
    for row in m.analysis.of_kind("treatment", "aa", "control"):
        word = f"{palette.row_glyph(row)} {palette.row_word(row, get_metric(m.analysis.metric))}"
        assert word in said
        if row.verdict.kind != "invalid":
            change = f"{row_texts(row).change} ({row_texts(row).interval_number})"
            assert any(text.startswith(change) for text in said)


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("case", [*CASES, "all_slower", "all_faster"])
def test_effects_figure_keeps_labels_above_the_axis_apart(case, narrow):
    analysis = (
        one_sided(-0.4) if case == "all_slower" else one_sided(0.6) if case == "all_faster" else mock(case).analysis
    )
    found = boxes(effects.draw(analysis, narrow=narrow))
    head = [(t, b) for t, b in found if re.match(r"margin ±|← |.* →$|verdict$|change \(", t.get_text())]
    assert len(head) == (3 if narrow else 5)
    for (one, first), (two, second) in itertools.combinations(head, 2):
        beside = max(first.x0, second.x0) - min(first.x1, second.x1)
        below = max(first.y0, second.y0) - min(first.y1, second.y1)
        assert beside >= 10 or below >= 0, (one.get_text(), two.get_text(), beside)


def one_sided(effect: float):
    """Return an analysis whose treatments all lie far on one side of zero, so that zero is at an end of the axis."""
    found = mock("plain").analysis
    return replace(found, rows=tuple(moved(row, effect) if row.kind != "baseline" else row for row in found.rows))


def moved(row, effect: float):
    if row.verdict is None or row.verdict.comparison.effect is None:
        return row
    at = {"effect": effect, "ci95": (effect - 0.05, effect + 0.05), "ci90": None, "ci_family": None}
    verdict = replace(row.verdict, comparison=replace(row.verdict.comparison, **at))
    return replace(row, verdict=verdict, expected_effect=None)


def _panel_marks(axes) -> list[str]:
    return [line.get_marker() for line in axes.lines if line.get_marker() not in ("None", "", None)]


def test_effects_figure_draws_no_mark_for_invalid_rows():
    marks = _panel_marks(effects.draw(mock("plain").analysis).axes[0])
    compared = [r for r in mock("plain").analysis.rows if r.verdict and r.verdict.kind != "invalid"]
    assert len(marks) == len(compared)
    assert _panel_marks(effects.draw(mock("all_invalid").analysis).axes[0]) == []


def test_effects_figure_ends_very_wide_intervals_in_arrows():
    m = mock("wide_interval")
    marks = _panel_marks(effects.draw(m.analysis).axes[0])
    assert marks.count("<") == marks.count(">") == 1
    assert "arrow head" in effects.how(m.analysis)
    assert "arrow head" not in effects.how(mock("plain").analysis)


def test_effects_figure_gives_no_verdict_when_a_check_failed():
    m = mock("aa_failed")
    assert "✕ failed" in words(effects.draw(m.analysis))
    assert effects.answer(m.analysis) == m.analysis.aa_failure


def test_effects_figure_names_the_number_of_blocks():
    assert any(text.endswith(", 12") for text in words(effects.draw(mock("plain").analysis)))
    assert any(
        "11 to 12 blocks" in text.replace("\n", " ")
        for text in words(effects.draw(mock("plain").analysis, narrow=True))
    )


# figures 2 and 3


def test_order_figure_draws_every_trial_with_crosses_for_excluded_ones():
    m = mock("plain")
    drawn = order.draw(m.analysis, m.values, m.reasons)
    crosses = [line for line in drawn.axes[0].lines if line.get_marker() == "x"]
    rings = [line for line in drawn.axes[0].lines if line.get_markerfacecolor() == "none"]
    others = (*crosses, *rings)
    marks = [line for line in drawn.axes[0].lines if line.get_marker() not in ("None", "") and line not in others]
    assert sum(len(line.get_xdata()) for line in crosses) == (~m.values["valid"]).sum() == 2
    assert sum(len(line.get_xdata()) for line in marks) == m.values["valid"].sum()
    assert sum(len(line.get_xdata()) for line in rings) == len(find_outliers(m.values)) == 2
    assert "Ring: 2 trials far from the others of its treatment, counted." in order.how(m.analysis, m.values)
    assert sum("driver crashed: not counted" in text for text in words(drawn)) == 2


def test_order_figure_gives_each_treatment_a_shape():
    looks = base.marks(mock("plain").analysis).values()
    assert len({(s.marker, s.hollow) for s in looks}) == len(looks)


def test_order_figure_shows_four_of_many_treatments():
    said = words(order.draw(mock("sixteen").analysis, mock("sixteen").values))
    assert "15 others" in said and "baseline" in said and "A/A: baseline again" in said


def test_order_figure_reports_drift():
    m = mock("plain")
    jumped = m.values.assign(value=m.values["value"] * np.where(m.values["block"] > 6, 1.5, 1.0))
    assert "not steady: block medians lie up to 49\u00a0% apart" in order.answer(m.analysis, jumped)
    assert order.answer(m.analysis, m.values).startswith("No: block medians lie up to 4.3\u00a0% apart")


def test_order_figure_reports_incomplete_blocks():
    m = mock("plain")
    assert order.answer(m.analysis, m.values[m.values["slot"] != 5]).startswith("Hardly")


def test_pairs_figure_counts_agreeing_blocks():
    m = mock("all_undecided")
    treatment = pairs.choose(m.analysis)
    drawn = pairs.draw(m.analysis, treatment, m.values)
    lines = [line for line in drawn.axes[0].lines if line.get_linestyle() == "-"]
    against = sum(line.get_color() == palette.INK for line in lines)
    assert f"{len(lines) - against} of {len(lines)} blocks agree in direction" in words(drawn)
    assert 0 < against < len(lines)


def test_pairs_figure_shows_compared_treatments_only():
    assert pairs.choose(mock("plain").analysis) == "tcp_nopush-on"
    assert pairs.choose(mock("all_invalid").analysis) is None


# figures 4 and 5


def test_errors_figure_is_drawn_only_with_errors():
    assert errors.needed(mock("plain").analysis)
    assert not errors.needed(mock("zero_errors").analysis)
    m = mock("zero_errors")
    assert errors.answer(m.analysis, m.errors, m.requests) == "No errors in any of 108 trials."


def test_errors_figure_separates_zero_from_the_log_axis():
    m = mock("plain")
    zero, axis = errors.draw(m.analysis, m.errors, m.requests).axes
    dots = sum(len(line.get_xdata()) for line in zero.lines)
    beyond = sum(len(line.get_xdata()) for line in axis.lines if line.get_marker() != "None")
    assert (dots, beyond) == ((m.errors["value"] == 0).sum(), (m.errors["value"] > 0).sum())
    assert any("14 time-outs" in text for text in words(errors.draw(m.analysis, m.errors, m.requests)))


def test_latency_figure_colours_panels_by_their_verdict():
    m = mock("plain")
    drawn = latency.draw(m.analysis, m.panels)
    kinds = {name: own.row("tcp_nopush-on").verdict.kind for name, (_, own) in m.panels.items()}
    assert len(set(kinds.values())) > 1
    for panel, kind in zip(drawn.axes, kinds.values(), strict=True):
        assert palette.VERDICTS[kind].fill in {line.get_color() for line in panel.lines}


def test_latency_figure_draws_six_panels_in_a_row():
    m = mock("plain")
    own = next(iter(m.panels.values()))
    drawn = latency.draw(m.analysis, dict.fromkeys(("p50", "p75", "p90", "p95", "p99", "p99.9"), own))
    assert len({round(panel.get_position().y0, 6) for panel in drawn.axes}) == 1
    assert words(drawn).count("baseline") == 1


def test_latency_figure_states_each_direction():
    m = mock("plain")
    values, own = next(iter(m.panels.values()))
    name = own.rows[1].treatment
    effects_by_panel = {"p50": 0.7, "p75": -0.5, "p90": -0.85, "p99": -0.6}
    panels = {p: (values, replace(own, rows=tuple(
        decided(r, e) if r.treatment == name else r for r in own.rows if r.treatment == name or r.kind != "treatment"
    ))) for p, e in effects_by_panel.items()}  # fmt: skip
    said = latency.answer(m.analysis, panels).replace("\u00a0", " ")
    assert re.search(r": p50 longer \(\+70[.0]* %, .* to .* %\), p75 to p99 shorter, p90 most \(−85[.0]* %, ", said)


def decided(row, effect: float):
    found = moved(row, effect)
    return replace(found, verdict=replace(found.verdict, kind="better" if effect < 0 else "worse", decimals=None))


def test_latency_figure_gives_no_verdict_when_the_aa_arm_failed():
    m = mock("plain")
    failed = replace(m.analysis, aa_failure="No verdict: the laboratory contradicts itself.")
    fills = {palette.VERDICTS[kind].fill for kind in ("better", "worse", "equivalent")}
    drawn = latency.draw(failed, m.panels)
    assert not fills & {line.get_color() for panel in drawn.axes for line in panel.lines}
    assert latency.answer(failed, m.panels).startswith("No verdict on any percentile")
    assert "own verdict" not in latency.how(failed, m.panels)


def test_latency_figure_without_percentiles_says_so():
    assert latency.answer(mock("plain").analysis, {}) == "This tool prints no percentiles."


# figure 7


def test_host_metrics_figure_starts_at_zero_and_shows_capacity():
    m = mock("plain")
    panels = traces.draw(m.traces, m.trials, m.hosts, m.labels).axes
    assert all(panel.get_ylim()[0] == 0 for panel in panels)
    assert [panel.get_ylim()[1] >= 100 for panel in panels[:2]] == [True, True]


def test_host_metrics_figure_names_saturated_and_unmonitored_resources():
    m, silent = mock("plain"), mock("no_monitor")
    assert traces.answer(m.traces, m.trials, m.hosts, m.labels).startswith("At its limit: the web’s core (100")
    assert "No monitor on: web" in traces.how(silent.traces, silent.trials, silent.hosts, silent.labels)
    assert "not measured: no monitor" in words(traces.draw(silent.traces, silent.trials, silent.hosts, silent.labels))


def test_host_metrics_figure_of_an_invalid_block_is_not_called_unmonitored():
    m = mock("plain")
    none = m.trials.assign(valid=False)
    assert "no trial of block" in traces.answer(m.traces, none, m.hosts, m.labels)
    assert "not measured: no trial counts" in words(traces.draw(m.traces, none, m.hosts, m.labels))


def test_host_metrics_figure_names_a_saturated_driver():
    m = mock("plain")
    swapped = {"gen": {"roles": ["web"], "cpus": [0]}, "www": {"roles": ["driver"], "cpus": None}}
    assert "the tool" in traces.answer(m.traces, m.trials, swapped, m.labels)


def test_host_metrics_figure_does_not_join_gaps():
    m = mock("plain")
    network = traces.draw(m.traces, m.trials, m.hosts, m.labels).axes[2]
    line = max(network.lines, key=lambda one: len(one.get_xdata()))
    assert np.isnan(line.get_ydata()).sum() == 2 * m.trials["treatment"].nunique()


def test_host_metrics_figure_accepts_windows_and_an_empty_table():
    m = mock("plain")
    nothing = m.traces.iloc[:0]
    assert not traces.needed(nothing) and traces.needed(m.traces)
    assert traces.answer(nothing, m.trials, m.hosts, m.labels).startswith("Not known")
    windows = dict.fromkeys(m.trials["trial"], 3.0)
    drawn = traces.draw(m.traces, m.trials, m.hosts, m.labels, windows=windows, narrow=True)
    assert drawn.axes


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
def test_host_metrics_figure_begins_with_the_response_rate(narrow):
    m = mock("plain")
    rates = dict(zip(m.values["trial"], m.values["value"], strict=True))
    drawn = traces.draw(m.traces, m.trials, m.hosts, m.labels, rates=rates, narrow=narrow)
    assert len(drawn.axes) == 1 + len(traces.draw(m.traces, m.trials, m.hosts, m.labels).axes)
    own = m.values[m.values["block"] == 6].sort_values("slot")
    line = max(drawn.axes[0].lines, key=lambda one: len(one.get_xdata()))
    heights = line.get_ydata()[~np.isnan(line.get_ydata())]
    assert sorted(heights) == pytest.approx(sorted(own["value"].repeat(2) / 1e3))
    assert any(text.startswith("ok responses per second, thousands") for text in words(drawn))


def test_host_metrics_figure_reports_a_briefly_saturated_driver():
    m = mock("plain")
    driver = next(alias for alias, host in m.hosts.items() if "driver" in host["roles"])
    mine = m.traces["trial"].isin(m.trials.loc[m.trials["block"] == 6, "trial"])
    cores = m.traces[mine & (m.traces["host"] == driver) & (m.traces["metric"] == "cpu_busy") & (m.traces["t_s"] > 0)]
    full = m.traces.copy()
    full.loc[cores.index[:1], "value"] = 1.0
    assert "the driver had room except in" in traces.answer(full, m.trials, m.hosts, m.labels)


def test_cores_figure_shows_cores_of_the_mask_and_each_process():
    m = mock("plain")
    drawn = cores.draw(m.traces, m.trials, m.hosts, m.labels, "gen")
    assert len(drawn.axes) == len(m.hosts["gen"]["cpus"] or "01")
    busy = m.traces[(m.traces["metric"] == "cpu_busy") & (m.traces["item"] == "cpu1") & (m.traces["host"] == "www")]
    shares = {"web:7": 1.0, "web:8": 0.3}
    own = [busy.assign(metric="process_cpu", item=item, value=busy["value"] * share) for item, share in shares.items()]
    more = pd.concat([m.traces, *own])
    texts = words(cores.draw(more, m.trials, m.hosts, m.labels, "www"))
    assert any("web’s process 1" in text for text in texts) and any("web’s process 2" in text for text in texts)
    assert "web’s process 1" in cores.answer(more, m.trials, m.hosts, m.labels, "www")
    assert not cores.needed(m.traces[m.traces["item"] == "all"], "www")


def test_overlay_figure_marks_a_trial_unlike_the_others():
    m = mock("plain")
    assert overlay.answer(m.traces, m.trials, m.hosts, m.labels).startswith("No trial of")
    trial = m.trials["trial"].iloc[5]
    odd = m.traces.copy()
    odd.loc[(odd["trial"] == trial) & (odd["metric"] == "cpu_busy"), "value"] *= 0.3
    assert overlay.answer(odd, m.trials, m.hosts, m.labels).startswith("1 of")


def test_host_metrics_figure_does_not_mix_sources():
    m = mock("plain")
    other = m.traces.assign(source="munin", value=m.traces["value"] * 0.1)
    both = pd.concat([m.traces, other])
    assert traces.alt(both, m.trials, m.hosts, m.labels) == traces.alt(m.traces, m.trials, m.hosts, m.labels)


# figures 10 and 13


def test_validity_figure_draws_hits_and_hatches_unchecked_rules():
    m = mock("no_monitor")
    drawn = validity.draw(m.trials, m.problems, m.titles, m.labels)
    crosses = [line for line in drawn.axes[0].lines if line.get_marker() == "x"]
    assert sum(len(line.get_xdata()) for line in crosses) == (~m.trials["valid"]).sum()
    said = words(drawn)
    assert "not checked: no monitor on the driver" in said
    assert "106 of 108 trials count" in said
    assert any(text.replace("\n", " ").endswith("12, all gzip on") for text in said)


def test_validity_figure_counts_levels_and_hatches_unchecked_trials():
    m = mock("plain")
    names = list(m.trials["trial"])
    said = [("invalid", names[0]), ("doubt", names[1]), ("doubt", names[2]), ("note", names[3])]
    said += [("unchecked", name) for name in names[10:20]]
    rows = [{"trial": t, "name": "zero-work", "level": level, "message": "not checked: no"} for level, t in said]
    drawn = validity.draw(m.trials, pd.DataFrame(rows), m.titles, m.labels, narrow=True)
    assert "✕ not counted: 1, ! doubt: 2, not checked: 10" in words(drawn)
    assert not any("not checked: no" in text for text in words(drawn))
    (hatched,) = [patch for patch in drawn.axes[0].patches if patch.get_hatch()]
    assert hatched.get_width() == pytest.approx(10)
    assert "not counted: 1, doubt: 2, not checked: 10" in validity.alt(m.trials, pd.DataFrame(rows), m.titles, m.labels)


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
def test_validity_figure_lists_clean_rules_in_words(narrow):
    m = mock("plain")
    titles = m.titles | {f"more-{n}": f"One more gate {n}" for n in range(20)}
    drawn = validity.draw(m.trials, m.problems, titles, m.labels, narrow=narrow)
    assert any(text.startswith("26 more gates, checked and clean: ") for text in words(drawn))
    assert all(box.x1 <= drawn.bbox.x1 for _, box in boxes(drawn))


def test_validity_figure_explains_a_trial_excluded_without_a_rule():
    m = mock("plain")
    nothing = m.problems.iloc[:0]
    assert "did not end" in validity.answer(m.trials, nothing, m.titles)


def test_claims_figure_draws_no_interval_for_the_article():
    m = mock("all_invalid")
    drawn = published.draw(judged(m), m.analysis)
    assert _panel_marks(drawn.axes[0]).count("D") == len(m.study.published.claims)
    assert "· not yet run here" in words(drawn)


def test_claims_figure_judges_direction_before_size():
    m = mock("plain")
    said = published.answer(judged(m), m.analysis)
    assert said == (
        "Of 4 claims: 2 hold here (in size, too: none); 1 does not hold here; 1 not yet run here. "
        "The article’s own numbers, one run each, could have shown 1 of them."
    )


def test_claims_figure_draws_the_compared_treatments():
    m = mock("plain")
    claim = m.study.published.claims[0].model_copy(update={"treatment": "access_log-on", "against": "tcp_nopush-on"})
    study = m.study.model_copy(update={"published": m.study.published.model_copy(update={"claims": (claim,)})})
    (one,) = judged(m, study)
    assert one.finding.verdict.comparison.baseline == "tcp_nopush-on"
    assert one.finding.outcome == "contradicted"
    (line,) = claims.lines_of([one])
    assert line.seen.startswith("▼ slower −9.9")
    assert line.seen in words(published.draw([one], m.analysis))
    assert "✗ does not hold here" in words(published.draw([one], m.analysis, narrow=True))


def test_claims_figure_leaves_out_claims_without_numbers():
    m = mock("plain")
    claim = m.study.published.claims[0]
    errors = claim.model_copy(update={"kind": "more-errors"})
    both = [judged(m, m.study.model_copy(update={"published": m.study.published.model_copy(update={"claims": (c,)})}))
            for c in (claim, errors)]  # fmt: skip
    with_lane, without = (published.draw(one, m.analysis, narrow=True) for one in both)
    assert without.get_figheight() < with_lane.get_figheight()
    assert _panel_marks(without.axes[0]).count("D") == 0
    assert "stand in words" in published.how(both[1], m.analysis)


# shared helpers


def test_figure_labels_fall_back_to_the_key_for_missing_glyphs():
    assert base.names(mock("japanese").analysis)["use-epoll"] == "use-epoll"
    assert base.names(mock("dollar").analysis)["tcp_nopush-on"] == "cost $5 < $6 & more"


def test_label_wrapping_keeps_the_width_and_marks_cuts():
    text = lettering.wrap("keepalive_requests 1000000, keepalive_timeout 75s and much more", 1.5, 9.6)
    assert text.count("\n") == 1 and text.endswith("…")
    assert lettering.widest([text], 9.6) <= 1.5


def test_label_shortening_keeps_both_ends():
    short = lettering.shortened("worker_processes_and_connections 32768", 1.2, 8.6)
    assert short.startswith("worker") and short.endswith("32768") and "…" in short
    assert lettering.widest([short], 8.6) <= 1.2


@pytest.mark.parametrize("width_in", [0.9, 1.2, 2.4])
@pytest.mark.parametrize(("low", "high"), [(0.21, 0.48), (1.8, 2.5), (2.2, 3.3), (40, 44), (0.9, 60), (5, 1000)])
def test_value_axis_has_no_missing_tick(low, high, width_in):
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    scales.values_on_x(axes, (low, high), scales.Unit(1.0, ""), width_in, 9.2)
    ticks = [float(label.replace(",", "")) for label in axes.xaxis.get_major_formatter().seq]
    assert ticks
    if high / low < scales.SHORT and len(ticks) > 2:
        assert np.diff(ticks) == pytest.approx(np.diff(ticks)[0])


@pytest.mark.parametrize("blocks", [1, 6, 12, 60, 500])
def test_block_axis_labels_are_evenly_spaced(blocks):
    from matplotlib.figure import Figure

    axes, slots = Figure().add_subplot(), range(1, 2 * blocks + 1)
    values = pd.DataFrame({"slot": slots, "block": [(slot + 1) // 2 for slot in slots]})
    scales.blocks_on_x(axes, values, 4.5, 9.2)
    named = [int(label) for label in axes.xaxis.get_major_formatter().seq]
    assert len(named) >= min(blocks, 5) and len(set(np.diff(named))) <= 1


def test_block_axis_labels_existing_blocks():
    from matplotlib.figure import Figure

    axes, slots = Figure().add_subplot(), range(1, 201)
    scales.blocks_on_x(axes, pd.DataFrame({"slot": slots, "block": [2 * slot - 1 for slot in slots]}), 2.0, 9.2)
    assert len(axes.xaxis.get_major_formatter().seq) >= 2


def test_label_separation_keeps_order_size_and_limits():
    wanted, sizes = [0.1, 0.1, 0.12, 3.0], [0.3, 0.3, 0.3, 0.3]
    places = lettering.pushed_apart(wanted, sizes, 0.0, 3.0)
    assert places == sorted(places)
    assert all(b - a >= 0.3 - 1e-9 for a, b in itertools.pairwise(places))
    assert places[0] >= 0.15 - 1e-9 and places[-1] <= 2.85 + 1e-9


@pytest.mark.parametrize(("low", "high"), [(36, 47), (0.9, 1.1), (1, 50), (0.01, 5000), (40_000, 41_000)])
def test_log_axis_always_has_ticks(low, high):
    ticks = scales.value_ticks(low, high)
    assert len(ticks) >= 2 and all(low <= t <= high for t in ticks)
