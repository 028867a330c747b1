"""Every figure in the cases that strain it; all data is mock data."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from effort import some
from figure_cases import FIGURES, STRAINS_MOST, make, must_be_complete
from figure_legibility import must_be_legible
from loadbook.analyses.claims.page import ClaimsFigure
from loadbook.analyses.effects.figure import EffectsFigure
from loadbook.analyses.effects.pairs import PairedBlocksFigure, default_treatment
from loadbook.analyses.resources import PeersFigure
from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.figures import axes as scales
from loadbook.report.figures import base, tracks
from loadbook.report.figures.errors import ErrorsFigure
from loadbook.report.figures.host_metrics import CoresFigure, HostMetricsFigure, TrialOverlayFigure
from loadbook.report.figures.latency import LatencyFigure
from loadbook.report.figures.order import OrderFigure
from loadbook.report.figures.svg import to_svg
from loadbook.report.figures.time_panels import cut_middle
from loadbook.report.figures.validity import ValidityFigure
from loadbook.stats.diagnostics import find_outliers
from loadbook.stats.text import row_texts
from loadbook.store.run_record import RecordedHost
from mock_analysis import CASES, Mock, assessed, mock


def host_metrics(m: Mock, **changes) -> HostMetricsFigure:
    data = {"traces": m.traces, "trials": m.trials, "hosts": m.hosts, "labels": m.labels} | changes
    return HostMetricsFigure(**data)  # type: ignore[arg-type]


def texts(figure) -> list[Text]:
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]


def words(figure) -> list[str]:
    return [t.get_text() for t in texts(figure)]


def boxes(figure):
    figure.draw_without_rendering()
    return [(t, t.get_window_extent()) for t in texts(figure)]


@pytest.mark.parametrize("figure", FIGURES)
def test_figure_is_legible_and_its_captions_match_the_data(figure):
    must_be_complete(figure, STRAINS_MOST)


@pytest.mark.parametrize("figure", some(FIGURES, 3))
def test_figure_bytes_are_reproducible_under_any_style(figure):
    import matplotlib as mpl

    first = to_svg(make(figure, "plain").draw())
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path", "text.parse_math": True}):
        second = to_svg(make(figure, "plain").draw())
    assert first == second
    assert first.startswith(b"<?xml") and b"<text" in first and b"<script" not in first
    assert len(first) < (300_000 if figure == "trial_overlay" else 150_000)  # a line for every trial and resource


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


# effects


def test_effects_figure_lists_rows_in_order_of_the_analysis():
    m = mock("plain")
    found = {t.get_text(): t.get_window_extent().y0 for t, _ in boxes(EffectsFigure(m.analysis).draw())}
    displayed = [found[r.label] for r in (*m.analysis.of_kind("treatment"), *m.analysis.of_kind("aa", "control"))]
    assert displayed == sorted(displayed, reverse=True)


@pytest.mark.parametrize("case", ["plain", "latency", "huge_effects", "tiny_effects"])
def test_effects_figure_prints_the_numbers_of_the_table(case):
    m = mock(case)
    printed = words(EffectsFigure(m.analysis).draw())
    for row in m.analysis.of_kind("treatment", "aa", "control"):
        word = f"{palette.row_glyph(row)} {palette.row_word(row, get_metric(m.analysis.metric))}"
        assert word in printed
        if row.verdict.kind != "invalid":
            change = f"{row_texts(row).change} ({row_texts(row).interval_number})"
            assert any(text.startswith(change) for text in printed)


@pytest.mark.parametrize("case", some([*CASES, "all_slower", "all_faster"], 6))
def test_effects_figure_keeps_labels_above_the_axis_apart(case):
    analysis = (
        one_sided(-0.4) if case == "all_slower" else one_sided(0.6) if case == "all_faster" else mock(case).analysis
    )
    found = boxes(EffectsFigure(analysis).draw())
    head = [(t, b) for t, b in found if re.match(r"margin ±|← |.* →$|verdict$|change \(", t.get_text())]
    assert len(head) == 5
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
    marks = _panel_marks(EffectsFigure(mock("plain").analysis).draw().axes[0])
    compared = [r for r in mock("plain").analysis.rows if r.verdict and r.verdict.kind != "invalid"]
    assert len(marks) == len(compared)
    assert _panel_marks(EffectsFigure(mock("all_invalid").analysis).draw().axes[0]) == []


def test_effects_figure_ends_very_wide_intervals_in_arrows():
    m = mock("wide_interval")
    marks = _panel_marks(EffectsFigure(m.analysis).draw().axes[0])
    assert marks.count("<") == marks.count(">") == 1
    assert "arrow head" in EffectsFigure(m.analysis).help
    assert "arrow head" not in EffectsFigure(mock("plain").analysis).help


def test_effects_figure_gives_no_verdict_when_a_check_failed():
    m = mock("aa_failed")
    assert "✕ failed" in words(EffectsFigure(m.analysis).draw())
    assert EffectsFigure(m.analysis).caption.startswith(
        "No verdict: the A/A arm differs from the baseline. A/A: baseline again"
    )


def test_effects_figure_states_the_number_of_blocks():
    assert any(text.endswith(", 12") for text in words(EffectsFigure(mock("plain").analysis).draw()))


def test_effects_figure_shows_the_numbers_of_each_comparison_on_hover():
    analysis = mock("plain").analysis
    areas = EffectsFigure(analysis).drawing().hover_areas
    compared = [r for r in EffectsFigure(analysis).rows if r.verdict and r.verdict.kind != "invalid"]
    assert len(areas) == len(compared)
    for row, area in zip(compared, areas, strict=True):
        assert area.text.startswith(f"{row.label}: ") and row_texts(row).interval_number in area.text
        assert " blocks, p " in area.text
    assert all(a.left >= 0 and a.left + a.width <= 100 and a.top >= 0 and a.top + a.height <= 100 for a in areas)


def test_order_figure_shows_the_value_of_each_valid_trial_on_hover():
    m = mock("plain")
    areas = OrderFigure(m.analysis, m.values, m.reasons).drawing().hover_areas
    assert [area.text.split(":")[0] for area in areas] == list(m.values.loc[m.values["valid"], "trial"])
    assert all("/s (" in area.text for area in areas)
    assert all(a.left >= 0 and a.left + a.width <= 100 and a.top >= 0 and a.top + a.height <= 100 for a in areas)


# order and paired blocks


def test_order_figure_draws_every_trial_with_crosses_for_excluded_ones():
    m = mock("plain")
    drawn = OrderFigure(m.analysis, m.values, m.reasons).draw()
    crosses = [line for line in drawn.axes[0].lines if line.get_marker() == "x"]
    rings = [line for line in drawn.axes[0].lines if line.get_markerfacecolor() == "none"]
    others = (*crosses, *rings)
    marks = [line for line in drawn.axes[0].lines if line.get_marker() not in ("None", "") and line not in others]
    assert sum(len(line.get_xdata()) for line in crosses) == (~m.values["valid"]).sum() == 2  # type: ignore[arg-type]
    assert sum(len(line.get_xdata()) for line in marks) == m.values["valid"].sum()  # type: ignore[arg-type]
    assert sum(len(line.get_xdata()) for line in rings) == len(find_outliers(m.values)) == 2  # type: ignore[arg-type]
    assert "Ring: 2 trials far from the others of its treatment, counted." in OrderFigure(m.analysis, m.values).help
    assert sum("driver crashed: not counted" in text for text in words(drawn)) == 2


def test_order_figure_gives_each_treatment_a_shape():
    looks = base.treatment_styles(mock("plain").analysis).values()
    assert len({(s.marker, s.hollow) for s in looks}) == len(looks)


def test_order_figure_distinguishes_four_of_many_treatments():
    printed = words(OrderFigure(mock("sixteen").analysis, mock("sixteen").values).draw())
    assert "15 others" in printed and "baseline" in printed and "A/A: baseline again" in printed


def test_order_figure_reports_drift():
    m = mock("plain")
    jumped = m.values.assign(value=m.values["value"] * np.where(m.values["block"] > 6, 1.5, 1.0))
    assert "not steady: block medians lie up to 49\u00a0% apart" in OrderFigure(m.analysis, jumped).caption
    assert OrderFigure(m.analysis, m.values).caption.startswith("No: block medians lie up to 4.3\u00a0% apart")


def test_order_figure_of_an_import_without_random_order_says_that_it_could_explain_the_effects():
    m = mock("plain")
    figure = OrderFigure(m.analysis, m.values, is_confounded=True)
    assert figure.caption.startswith("It could: the order is not random (see the doubts), and block medians lie")
    assert not any("random order" in text for text in words(figure.draw()))
    assert any("in random order" in text for text in words(OrderFigure(m.analysis, m.values).draw()))


def test_order_figure_reports_incomplete_blocks():
    m = mock("plain")
    assert OrderFigure(m.analysis, m.values[m.values["slot"] != 5]).caption.startswith("Hardly")


def test_paired_blocks_figure_counts_blocks_with_the_same_direction():
    m = mock("all_undecided")
    treatment = default_treatment(m.analysis)
    drawn = PairedBlocksFigure(m.analysis, treatment, m.values).draw()
    lines = [line for line in drawn.axes[0].lines if line.get_linestyle() == "-"]
    against = sum(line.get_color() == palette.INK for line in lines)
    assert f"{len(lines) - against} of {len(lines)} blocks agree in direction" in words(drawn)
    assert 0 < against < len(lines)


def test_paired_blocks_figure_accepts_compared_treatments_only():
    assert default_treatment(mock("plain").analysis) == "tcp_nopush-on"
    assert default_treatment(mock("all_invalid").analysis) is None


# errors and latency


def test_errors_figure_is_drawn_only_with_errors():
    assert ErrorsFigure.has_data(mock("plain").analysis)
    assert not ErrorsFigure.has_data(mock("zero_errors").analysis)
    m = mock("zero_errors")
    assert ErrorsFigure(m.analysis, m.errors, m.requests).caption == "No errors in any of 108 trials."


def test_errors_figure_separates_zero_from_the_log_axis():
    m = mock("plain")
    zero, axis, _ = ErrorsFigure(m.analysis, m.errors, m.requests).draw().axes
    dots, beyond = (
        sum(len(line.get_xdata()) for line in panel.lines if line.get_marker() != "None")  # type: ignore[arg-type]
        for panel in (zero, axis)
    )
    assert (dots, beyond) == ((m.errors["value"] == 0).sum(), (m.errors["value"] > 0).sum())
    assert any("14 time-outs" in text for text in words(ErrorsFigure(m.analysis, m.errors, m.requests).draw()))


def test_latency_figure_colours_panels_by_their_verdict():
    m = mock("plain")
    drawn = LatencyFigure(m.analysis, m.panels).draw()
    kinds = {name: own.row("tcp_nopush-on").verdict.kind for name, (_, own) in m.panels.items()}
    assert len(set(kinds.values())) > 1
    for panel, kind in zip(drawn.axes, kinds.values(), strict=True):
        assert palette.VERDICTS[kind].fill in {line.get_color() for line in panel.lines}


def test_latency_figure_draws_six_panels_in_a_row():
    m = mock("plain")
    own = next(iter(m.panels.values()))
    drawn = LatencyFigure(m.analysis, dict.fromkeys(("p50", "p75", "p90", "p95", "p99", "p99.9"), own)).draw()
    assert len({round(panel.get_position().y0, 6) for panel in drawn.axes}) == 1
    assert words(drawn).count("baseline") == 1


def test_latency_figure_caption_states_longer_and_shorter_percentiles():
    m = mock("plain")
    values, own = next(iter(m.panels.values()))
    name = own.rows[1].treatment
    effects_by_panel = {"p50": 0.7, "p75": -0.5, "p90": -0.85, "p99": -0.6}
    panels = {p: (values, replace(own, rows=tuple(
        decided(r, e) if r.treatment == name else r for r in own.rows if r.treatment == name or r.kind != "treatment"
    ))) for p, e in effects_by_panel.items()}  # fmt: skip
    printed = LatencyFigure(m.analysis, panels).caption.replace("\u00a0", " ")
    assert re.search(r": p50 longer \(\+70[.0]* %, .* to .* %\), p75 to p99 shorter, p90 most \(−85[.0]* %, ", printed)


def decided(row, effect: float):
    found = moved(row, effect)
    return replace(found, verdict=replace(found.verdict, kind="better" if effect < 0 else "worse", decimals=None))


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (("invalid", "invalid"), "Not compared: 1 of 5 blocks."),
        (("undecided", "undecided"), "Undecided: no treatment is shown to change any percentile by 5\u00a0% or more."),
        (
            ("undecided", "equivalent"),
            "o treatment is shown to change any percentile by 5\u00a0% or more, 1 undecided.",
        ),
        (
            ("equivalent", "invalid"),
            "o treatment is shown to change any percentile by 5\u00a0% or more, 1 not compared.",
        ),
    ],
)
def test_latency_figure_caption_says_what_is_undecided_or_not_compared(kinds, words):
    m = mock("plain")
    values, own = next(iter(m.panels.values()))
    first, second = own.of_kind("treatment")[:2]

    def assessed(row, kind):
        reason = "1 of 5 blocks" if kind == "invalid" else None
        return replace(row, verdict=replace(row.verdict, kind=kind, reason=reason))

    rows = (own.rows[0], assessed(first, kinds[0]), assessed(second, kinds[1]))
    panels = {"p99": (values, replace(own, rows=rows, margin=0.05))}
    assert LatencyFigure(m.analysis, panels).caption.endswith(words)


def test_latency_figure_gives_no_verdict_when_the_aa_arm_failed():
    m = mock("plain")
    failed = mock("aa_failed").analysis
    fills = {palette.VERDICTS[kind].fill for kind in ("better", "worse", "equivalent")}
    drawn = LatencyFigure(failed, m.panels).draw()
    assert not fills & {line.get_color() for panel in drawn.axes for line in panel.lines}
    assert LatencyFigure(failed, m.panels).caption.startswith("No verdict on any percentile")
    assert "own verdict" not in LatencyFigure(failed, m.panels).help


def test_latency_figure_without_percentiles_says_so():
    assert LatencyFigure(mock("plain").analysis, {}).caption == "This tool prints no percentiles."


# host metrics


def test_host_metrics_figure_starts_at_zero_and_shows_capacity():
    m = mock("plain")
    panels = host_metrics(m).draw().axes
    assert all(panel.get_ylim()[0] == 0 for panel in panels)
    assert [panel.get_ylim()[1] >= 100 for panel in panels[:2]] == [True, True]


def test_host_metrics_figure_names_saturated_and_unmonitored_resources():
    m, silent = mock("plain"), mock("no_monitor")
    assert host_metrics(m).caption.startswith("At its limit: the web’s core (100")
    assert "No monitor on: web" in host_metrics(silent).help
    assert "not measured: no monitor" in words(host_metrics(silent).draw())


def test_host_metrics_figure_distinguishes_an_invalid_block_from_missing_monitors():
    m = mock("plain")
    none = m.trials.assign(valid=False)
    assert "no trial of block" in host_metrics(m, trials=none).caption
    assert "not measured: no trial counts" in words(host_metrics(m, trials=none).draw())


def test_host_metrics_figure_names_a_saturated_driver():
    m = mock("plain")
    swapped = {"gen": RecordedHost(roles=["web"], cpus=[0]), "www": RecordedHost(roles=["driver"])}
    assert "the tool" in host_metrics(m, hosts=swapped).caption


def test_host_metrics_figure_draws_no_line_across_gaps():
    m = mock("plain")
    network = host_metrics(m).draw().axes[2]
    line = max(network.lines, key=lambda one: len(one.get_xdata()))  # type: ignore[arg-type]
    assert np.isnan(line.get_ydata()).sum() == 2 * m.trials["treatment"].nunique()


def test_host_metrics_figure_accepts_measurement_windows_and_an_empty_table():
    m = mock("plain")
    nothing = m.traces.iloc[:0]
    assert not HostMetricsFigure.has_data(nothing) and HostMetricsFigure.has_data(m.traces)
    assert host_metrics(m, traces=nothing).caption.startswith("Not known")
    windows = dict.fromkeys(m.trials["trial"], 3.0)
    drawn = host_metrics(m, windows=windows).draw()
    assert drawn.axes


def test_host_metrics_figure_begins_with_the_response_rate():
    m = mock("plain")
    rates = dict(zip(m.values["trial"], m.values["value"], strict=True))
    drawn = host_metrics(m, rates=rates).draw()
    assert len(drawn.axes) == 1 + len(host_metrics(m).draw().axes)
    own = m.values[m.values["block"] == 6].sort_values("slot")
    line = max(drawn.axes[0].lines, key=lambda one: len(one.get_xdata()))  # type: ignore[arg-type]
    heights = line.get_ydata()[~np.isnan(line.get_ydata())]
    assert sorted(heights) == pytest.approx(sorted(own["value"].repeat(2) / 1e3))  # type: ignore[arg-type]
    assert any(text.startswith("ok responses per second, thousands") for text in words(drawn))


def test_host_metrics_figure_reports_a_briefly_saturated_driver():
    m = mock("plain")
    driver = next(alias for alias, host in m.hosts.items() if "driver" in host.roles)
    mine = m.traces["trial"].isin(m.trials.loc[m.trials["block"] == 6, "trial"])
    cores = m.traces[mine & (m.traces["host"] == driver) & (m.traces["metric"] == "cpu_busy") & (m.traces["t_s"] > 0)]
    full = m.traces.copy()
    full.loc[cores.index[:1], "value"] = 1.0
    assert "the driver had room except in" in host_metrics(m, traces=full).caption


def test_host_metrics_figure_says_that_others_used_the_full_driver():
    m = mock("plain")
    driver = next(alias for alias, host in m.hosts.items() if "driver" in host.roles)
    full = m.traces.copy()
    full.loc[(full["host"] == driver) & (full["metric"] == "cpu_busy"), "value"] = 1.0
    trials = m.trials.loc[m.trials["block"] == 6, "trial"]
    words = "; other programs used the driver, too"
    assert words in host_metrics(m, traces=full, foreign={(trials.iloc[0], driver)}).caption
    assert words not in host_metrics(m, traces=full, foreign={("t9999", driver), (trials.iloc[0], "web")}).caption


def test_cores_figure_shows_allowed_cores_and_each_process():
    m = mock("plain")
    drawn = CoresFigure(m.traces, m.trials, m.hosts, m.labels, "gen").draw()
    assert len(drawn.axes) == len(m.hosts["gen"].cpus or "01")
    busy = m.traces[(m.traces["metric"] == "cpu_busy") & (m.traces["item"] == "cpu1") & (m.traces["host"] == "www")]
    shares = {"web:7": 1.0, "web:8": 0.3}
    own = [busy.assign(metric="process_cpu", item=item, value=busy["value"] * share) for item, share in shares.items()]
    more = pd.concat([m.traces, *own])
    texts = words(CoresFigure(more, m.trials, m.hosts, m.labels, "www").draw())
    assert any("web’s process 1" in text for text in texts) and any("web’s process 2" in text for text in texts)
    assert "web’s process 1" in CoresFigure(more, m.trials, m.hosts, m.labels, "www").caption
    assert "www" not in CoresFigure.hosts_with_cores(m.traces[m.traces["item"] == "all"], m.hosts)


def test_overlay_figure_marks_a_trial_that_differs_from_the_others():
    m = mock("plain")
    assert TrialOverlayFigure(m.traces, m.trials, m.hosts).caption.startswith("No trial of")
    trial = m.trials["trial"].iloc[5]
    odd = m.traces.copy()
    odd.loc[(odd["trial"] == trial) & (odd["metric"] == "cpu_busy"), "value"] *= 0.3
    assert TrialOverlayFigure(odd, m.trials, m.hosts).caption.startswith("1 of")


def test_host_metrics_figure_keeps_names_of_trials_that_failed_at_once_apart():
    m = mock("plain")
    own = m.trials[m.trials["block"] == 6].sort_values("slot").index
    failed = m.trials.loc[own[:5], "trial"]
    trials = m.trials.assign(valid=~m.trials["trial"].isin(list(failed)))
    trials.loc[own, "started"] = [0.0, 0.1, 0.2, 0.3, 0.4, *(20.0 * k for k in range(1, len(own) - 4))]
    windows = dict.fromkeys(m.trials["trial"], 18.0) | dict.fromkeys(failed, 0.0)
    traces = m.traces[~m.traces["trial"].isin(list(failed))]
    drawn = host_metrics(m, trials=trials, traces=traces, windows=windows).draw()
    must_be_legible(drawn)
    assert sum(word.endswith(" ✕") for word in words(drawn)) == len(failed)


def test_peers_figure_has_a_panel_for_each_unusual_resource():
    m = mock("plain")
    trial, cores = m.trials["trial"].iloc[5], m.traces[m.traces["item"].str.startswith("cpu")]
    traces = pd.concat([m.traces, cores.assign(metric="process_cpu", item=f"{'long-name-' * 9}:7")])
    traces.loc[(traces["trial"] == trial) & (traces["host"] == "www"), "value"] *= 0.3
    figure = PeersFigure(traces, m.trials, m.hosts, trial)
    drawn = figure.draw()
    must_be_legible(drawn)
    assert len(drawn.axes) == len(figure.rows) > 3
    assert any("here, usually" in word for word in words(drawn))
    must_be_legible(PeersFigure(traces[traces["trial"] == trial], m.trials, m.hosts, trial).draw())
    must_be_legible(PeersFigure(m.traces, m.trials, m.hosts, trial).draw())  # monitors without processes


def test_host_metrics_figure_uses_one_monitor_per_host():
    m = mock("plain")
    other = m.traces.assign(source="munin", value=m.traces["value"] * 0.1)
    both = pd.concat([m.traces, other])
    assert host_metrics(m, traces=both).alt_text == host_metrics(m).alt_text


# validity and claims


def test_validity_figure_draws_hits_and_hatches_unchecked_rules():
    m = mock("no_monitor")
    drawn = ValidityFigure(m.trials, m.problems, m.titles, m.labels).draw()
    crosses = [line for line in drawn.axes[0].lines if line.get_marker() == "x"]
    assert sum(len(line.get_xdata()) for line in crosses) == (~m.trials["valid"]).sum()  # type: ignore[arg-type]
    printed = words(drawn)
    assert "not checked: no monitor on the driver" in printed
    assert "106 of 108 trials count" in printed
    assert any(text.replace("\n", " ").endswith("12, all gzip on") for text in printed)


def test_validity_figure_counts_levels_and_hatches_unchecked_trials():
    m = mock("plain")
    names = list(m.trials["trial"])
    printed = [("invalid", names[0]), ("doubt", names[1]), ("doubt", names[2]), ("note", names[3])]
    printed += [("unchecked", name) for name in names[10:20]]
    rows = [{"trial": t, "name": "zero-work", "level": level, "message": "not checked: no"} for level, t in printed]
    drawn = ValidityFigure(m.trials, pd.DataFrame(rows), m.titles, m.labels).draw()
    assert "✕ not counted: 1, ! doubt: 2,\nnot checked: 10" in words(drawn)
    assert not any("not checked: no" in text for text in words(drawn))
    (hatched,) = [bars for bars in drawn.axes[0].collections if bars.get_hatch()]
    assert hatched.get_paths()[0].get_extents().width == pytest.approx(10)
    assert (
        "not counted: 1, doubt: 2, not checked: 10"
        in ValidityFigure(m.trials, pd.DataFrame(rows), m.titles, m.labels).alt_text
    )


def test_validity_figure_lists_rules_without_hits_below_the_rows():
    m = mock("plain")
    titles = m.titles | {f"more-{n}": f"One more gate {n}" for n in range(20)}
    figure = ValidityFigure(m.trials, m.problems, titles, m.labels)
    drawn = figure.draw()
    assert "26 more rules found no sign of: " in figure.help
    assert all(box.x1 <= drawn.bbox.x1 for _, box in boxes(drawn))


def test_validity_figure_explains_a_trial_excluded_without_a_rule():
    m = mock("plain")
    nothing = m.problems.iloc[:0]
    assert "did not end" in ValidityFigure(m.trials, nothing, m.titles).caption


def test_claims_figure_draws_no_interval_for_the_article():
    m = mock("all_invalid")
    drawn = ClaimsFigure(assessed(m), m.analysis).draw()
    assert _panel_marks(drawn.axes[0]).count("D") == len(m.study.published.claims)
    assert "· not yet run here" in words(drawn)


def test_claims_figure_states_direction_before_size():
    m = mock("plain")
    printed = ClaimsFigure(assessed(m), m.analysis).caption
    assert printed == (
        "Of 4 claims: 2 hold here (in direction, not in size); 1 does not hold here; 1 not yet run here. "
        "The article’s own numbers, one run each, could have shown 1 of them."
    )


def test_claims_figure_draws_the_comparison_that_the_claim_names():
    m = mock("plain")
    claim = m.study.published.claims[0].model_copy(update={"treatment": "access_log-on", "against": "tcp_nopush-on"})
    study = m.study.model_copy(update={"published": m.study.published.model_copy(update={"claims": (claim,)})})
    (one,) = assessed(m, study)
    assert one.finding.verdict.comparison.baseline == "tcp_nopush-on"
    assert one.finding.outcome == "contradicted"
    (line,) = ClaimsFigure([one], m.analysis).lines
    assert line.result.startswith("▼ slower −9.9")
    assert line.result in words(ClaimsFigure([one], m.analysis).draw())
    assert "✗ does not hold here" in words(ClaimsFigure([one], m.analysis).draw())


def test_claims_figure_leaves_out_claims_without_numbers():
    m = mock("plain")
    errors = m.study.published.claims[0].model_copy(update={"kind": "more-errors"})
    published = m.study.published.model_copy(update={"claims": (errors,)})
    figure = ClaimsFigure(assessed(m, m.study.model_copy(update={"published": published})), m.analysis)
    assert _panel_marks(figure.draw().axes[0]).count("D") == 0
    assert "stand in words" in figure.help


# shared helpers


def test_figure_labels_use_the_treatment_key_if_the_font_lacks_a_letter():
    assert base.treatment_names(mock("japanese").analysis)["use-epoll"] == "use-epoll"
    assert base.treatment_names(mock("dollar").analysis)["tcp_nopush-on"] == "cost $5 < $6 & more"


def test_folded_texts_have_lines_of_at_most_so_many_letters_and_mark_cuts():
    text = base.fold("keepalive_requests 1000000, keepalive_timeout 75s and much more", 20)
    assert text.count("\n") == 1 and text.endswith("…")
    assert max(map(len, text.split("\n"))) <= 20
    assert base.fold("short", 20) == "short" and base.fold("", 20) == ""


def test_names_that_are_cut_in_the_middle_keep_both_ends():
    short = cut_middle("worker_processes_and_connections 32768", 16)
    assert short.startswith("worker") and short.endswith("32768") and "…" in short and len(short) <= 16
    assert cut_middle("short", 16) == "short"


def labels_of(axes) -> list[str]:
    """The labels of the drawn x axis of a panel; they must not touch."""
    axes.figure.draw_without_rendering()
    labels = [label for label in axes.get_xticklabels() if label.get_text()]
    edges = sorted((label.get_window_extent() for label in labels), key=lambda box: box.x0)
    assert all(after.x0 - one.x1 > 2 for one, after in itertools.pairwise(edges))
    return [label.get_text() for label in labels]


@pytest.mark.parametrize("width_in", [0.9, 1.2, 2.4])
@pytest.mark.parametrize(("low", "high"), [(0.21, 0.48), (1.8, 2.5), (2.2, 3.3), (40, 44), (0.9, 60), (5, 1000)])
def test_value_axis_has_all_ticks_between_its_outermost_ones(low, high, width_in):
    axes = Figure((width_in, 2)).add_axes((0, 0.3, 1, 0.7))
    with base.house_style():
        scales.set_value_scale(axes.xaxis, (low, high), scales.AxisUnit(1.0, ""))
        ticks = [float(label.replace(",", "")) for label in labels_of(axes)]
    assert ticks
    if high / low < scales.SHORT_AXIS_RATIO and len(ticks) > 2:
        assert np.diff(ticks) == pytest.approx(np.diff(ticks)[0])


def block_labels(trials: pd.DataFrame, width_in: float) -> list[str]:
    """The labels of an axis of blocks on a figure of this width."""
    axes = Figure((width_in, 2)).add_axes((0, 0.3, 1, 0.7))
    scales.set_block_axis(axes, trials)
    return labels_of(axes)


@pytest.mark.parametrize("blocks", [1, 6, 12, 60, 500])
def test_block_axis_labels_are_evenly_spaced(blocks):
    slots = range(1, 2 * blocks + 1)
    values = pd.DataFrame({"slot": slots, "block": [(slot + 1) // 2 for slot in slots]})
    named = [int(label) for label in block_labels(values, 4.5)]
    assert len(named) >= min(blocks, 5) and len(set(np.diff(named))) <= 1


def test_block_axis_labels_existing_blocks():
    slots = range(1, 201)
    named = block_labels(pd.DataFrame({"slot": slots, "block": [2 * slot - 1 for slot in slots]}), 2.0)
    assert len(named) >= 2 and all(int(label) % 2 for label in named)


@pytest.mark.parametrize(("low", "high"), [(36, 47), (0.9, 1.1), (1, 50), (0.01, 5000), (40_000, 41_000)])
def test_log_axis_always_has_ticks(low, high):
    ticks = scales.value_ticks(low, high)
    assert len(ticks) >= 2 and all(low <= t <= high for t in ticks)
