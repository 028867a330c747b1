"""Pages: every block says what the run allows, in hard cases too, and hostile strings stay text."""

import copy
import re
import shutil
from dataclasses import replace

import pytest
from bs4 import BeautifulSoup

from loadbook.analyses.effects.page import EffectsPage
from loadbook.analyses.quality import QualityPage
from loadbook.core.errors import UsageError
from loadbook.report import checks
from loadbook.report.html import forbidden_content
from loadbook.report.nodes import Column, Table, clean, to_html, to_markdown, to_text
from loadbook.report.page import scope_parts
from loadbook.report.sections import ValidityMessage
from loadbook.report.verdicts import level_note
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run
from mock_pages import page_of, text_of
from mock_project import PUBLISHED, Arm, make_project, usual_arms
from rendered_pages import page_html

NASTY = '"><img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31mred\x1b]8;;http://x\x07\u202e$x_1$ {{7*7}}'
INERT = '"><img src=x onerror=alert(1)><script>alert(2)</script>[31mred]8;;http://x$x_1$ {{7*7}}'


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("usual"), usual_arms(), name="usual", question="Which one is faster?")


def test_page_states_scope_and_answer(usual):
    assert usual.scope().text.startswith("Which one is faster?\nwrk, closed loop, 100 connections · page of 4")
    assert len(usual.scope().text.splitlines()[1]) <= 160
    assert usual.answer().text.startswith("tcp_nopush on is faster by ")
    assert len(usual.answer().text.splitlines()[0]) <= 90


def test_scope_has_the_range_of_sizes_where_treatments_answer_with_different_pages(usual):
    page = copy.copy(usual)
    is_first = usual.run_data.trials["treatment"] == usual.run_data.trials["treatment"].iloc[0]
    sizes = is_first.map({True: 128.0, False: 512 * 1024.0})
    page.run_data = replace(usual.run_data, trials=usual.run_data.trials.assign(response_bytes=sizes))
    assert "· pages of 128\xa0B to 512.0\xa0KiB on " in page.scope().text


def test_scope_and_index_have_the_time_of_a_run_without_its_pauses(usual):
    page, trials = copy.copy(usual), usual.run_data.trials
    later = trials["started"] + 7200.0 * (trials["block"] > trials["block"].max() / 2)
    record = usual.run_data.run_record.model_copy(update={"ended": usual.run_data.run_record.ended + 7200})
    page.run_data = replace(usual.run_data, trials=trials.assign(started=later), run_record=record)
    assert re.search(r"blocks, 1\xa0h 2\d\xa0min$", usual.scope().text)
    assert re.search(r"blocks, 1\xa0h 2\d\xa0min and 2\xa0h \d\xa0min of pauses$", page.scope().text)
    assert (usual.summary()["paused_s"], page.summary()["paused_s"]) == (0, pytest.approx(7200, abs=60))


def test_table_says_why_medians_do_not_give_the_changes_of_a_host_that_changed_its_speed(usual):
    assert level_note(usual.analysis) == "" and "A change compares trials of one block" not in usual.effects().text
    base = usual.analysis.baseline
    slower = {True: 0.8, False: 1.0}
    rows = [replace(r, median=r.median and r.median * slower[r.treatment == base]) for r in usual.analysis.rows]
    assert level_note(replace(usual.analysis, rows=tuple(rows))).startswith(
        "ok/s: median over all trials of a treatment"
    )


def test_page_of_a_smoke_run_names_the_treatments_that_it_left_out(usual):
    smoke = replace(usual.run_data, plan=replace(usual.run_data.plan, left_out=("large", "largest")))
    assert scope_parts(smoke, 0.02)[-1] == "smoke: without large, largest"
    assert not [part for part in scope_parts(usual.run_data, 0.02) if "smoke" in part]


def test_page_checks_a_claim_about_two_treatments_by_comparing_them(tmp_path):
    claims = [PUBLISHED["claims"][0] | {"treatment": "access-log", "against": "tcp-nopush"}]
    page = page_of(tmp_path, published=PUBLISHED | {"claims": claims})
    printed = re.search(r"is slower than tcp_nopush on by (\d+\.\d)\u00a0%", page.published().text)
    assert printed and float(printed[1]) == pytest.approx(100 * (1 - 0.953 / 1.06), abs=1)


def test_page_lists_the_harness_checks(usual):
    cells = usual.trust().text.splitlines()
    assert cells[0].startswith("✓ A/A arm passed: ")
    assert cells[1].startswith("✓ Known effect found: built in −10\u00a0%, measured −")
    assert cells[2].startswith("✓ 95 of 108 trials count: 13 excluded: 12 answers differ")
    assert cells[3].startswith("! 1 doubt")
    assert 'href="#doubts"' in usual.trust().html


def test_page_explains_a_passed_aa_arm_whose_interval_excludes_zero(usual):
    aa = next(row for row in usual.analysis.rows if row.kind == "aa")
    found = replace(aa.verdict.comparison, effect=0.03, ci95=(0.01, 0.05), p=0.025)
    near = replace(aa, verdict=replace(aa.verdict, comparison=found))
    reported = checks.harness_checks(usual.run_data, replace(usual.analysis, rows=(near,)))[0]
    assert reported.glyph == "✓" and reported.text.endswith("; p 0.025, which fails below 0.01")


def test_page_does_not_excuse_a_failed_aa_arm_by_its_threshold(usual):
    aa = next(row for row in usual.analysis.rows if row.kind == "aa")
    found = replace(aa.verdict.comparison, effect=0.03, ci95=(0.01, 0.05), p=0.001)
    failed = replace(aa, verdict=replace(aa.verdict, comparison=found), check_state="failed")
    reported = checks.harness_checks(usual.run_data, replace(usual.analysis, rows=(failed,)))[0]
    assert reported.css_class == "failed" and "fails below" not in reported.text


@pytest.mark.parametrize("states", [("passed", "failed"), ("failed", "passed")])
def test_page_shows_the_worst_of_several_aa_arms(usual, states):
    aa = next(row for row in usual.analysis.rows if row.kind == "aa")
    rows = tuple(replace(aa, label=f"again, {state}", check_state=state) for state in states)
    reported = checks.harness_checks(usual.run_data, replace(usual.analysis, rows=rows))[0]
    assert reported.css_class == "failed" and reported.text.startswith("again, failed ")


@pytest.mark.parametrize(("excluded", "css"), [(2, ""), (3, "doubt")])
def test_page_doubts_a_run_of_which_more_than_a_fifth_of_the_trials_is_excluded(usual, excluded, css):
    trials = usual.run_data.trials.head(10).assign(valid=[False] * excluded + [True] * (10 - excluded))
    data = replace(
        usual.run_data, trials=trials, plan=replace(usual.run_data.plan, trials=usual.run_data.plan.trials[:10])
    )
    reported = checks.harness_checks(data, usual.analysis)[2]
    assert (reported.css_class, reported.title) == (css, f"{10 - excluded} of 10 trials count")


def test_page_without_doubts_still_says_that_a_rule_was_not_checked(usual):
    rows = [row for row in usual.analysis.rows if row.kind == "aa"]
    problems = usual.run_data.problems[usual.run_data.problems["level"] == "invalid"]
    data = replace(usual.run_data, problems=problems)
    missing = ValidityMessage("foreign_cpu", "Other load", "unchecked", 3, "no monitor was running")
    analysis = replace(usual.analysis, rows=tuple(rows))
    assert checks.harness_checks(data, analysis)[3].glyph == "✓"
    reported = checks.harness_checks(data, analysis, [missing])[3]
    assert (reported.css_class, reported.title, reported.text) == ("doubt", "1 not checked", "Other load")


@pytest.mark.parametrize(("state", "names"), [("failed", ["control"]), ("inconclusive", []), ("unchecked", [])])
def test_page_says_that_a_known_effect_was_missed_only_if_its_control_failed(usual, state, names):
    rows = [replace(row, check_state=state) if row.kind == "control" else row for row in usual.analysis.rows]
    found = checks.comparison_notes(replace(usual.analysis, rows=tuple(rows)))
    assert [note.name for note in found if note.name == "control"] == names


def test_page_merges_equal_notes_on_several_treatments(usual):
    left_out = "in 1 block a trial of the treatment or of the baseline does not count; that block is left out"
    rows = [
        replace(row, verdict=row.verdict and replace(row.verdict, comparison=replace(row.verdict.comparison, flags=f)))
        for row, f in zip(usual.analysis.rows, ((), (left_out,), ("other", left_out), *[()] * 99), strict=False)
    ]
    found = checks.comparison_notes(replace(usual.analysis, rows=tuple(rows)))
    assert [(s.title, s.text) for s in found if s.name == "comparison"] == [
        (f"Effect of {rows[1].label} and {rows[2].label}", left_out),
        (f"Effect of {rows[2].label}", "other"),
    ]


def test_page_ends_with_the_summary_for_the_report_command(usual):
    summary = usual.summary()
    assert usual.provenance().data == {"application/vnd.loadbook.done+json": summary}
    assert (summary["valid"], summary["planned"], summary["aa"], summary["control"]) == (95, 108, True, True)
    assert summary["verdict"]["kind"] == "better"


def test_page_setup_shows_treatments_before_hosts_and_changed_facts(usual):
    block = usual.setup()
    assert block.html.index("How do the treatments differ") < block.html.index("On which hosts")
    assert "load 1min" in block.html
    assert "Some CPU &lt;b&gt;" in block.html


def test_page_provenance_reports_changed_raw_data(tmp_path):
    page = page_of(tmp_path)
    assert "raw data: verified: 3 files of 3 trials" in page.provenance().text
    (page.run_data.paths.trial("t0002") / "stdout-driver-1").write_text("changed")
    assert "NOT as recorded: t0002/stdout-driver-1" in page.provenance().text


def test_page_shows_any_figure_by_name(usual):
    displayed = usual.figure("effects", usual.analysis)
    assert displayed.html.count("data:image/svg+xml,") == 1
    for name in ("absent", "common", "../effects"):
        with pytest.raises(UsageError, match="no figure"):
            usual.figure(name)


def test_error_on_an_unknown_name_lists_the_known_names(usual):
    with pytest.raises(UsageError, match="no treatment 'x'"):
        EffectsPage(usual.run_data, baseline="x").answer()
    with pytest.raises(UsageError, match="no metric 'speed'"):
        EffectsPage(usual.run_data, metric="speed").answer()
    with pytest.raises(UsageError, match="level"):
        EffectsPage(usual.run_data, level=95).answer()


def test_page_escapes_hostile_strings(tmp_path):
    arms = {
        "baseline": Arm(label=NASTY),
        "one": Arm(0.06, {"one": True}, NASTY, errors=5, error_share=0.5),
        "gone": Arm(0.0, {"gone": True}, NASTY, invalid=NASTY),
    }
    published = {"source": NASTY, "claims": [{"claim": NASTY, "treatment": "one", "against": "baseline",
                 "value": 2.0, "against_value": 1.0}]}  # fmt: skip
    layout = make_project(tmp_path, arms, name="mock", question=NASTY[:88], doubt=NASTY, blocks=6, published=published,
                          background=NASTY)  # fmt: skip
    data = load_run(layout, "mock")
    data.run_record.tool_versions["driver-1"] = data.run_record.service_versions["web-1"] = NASTY
    data.facts["web-1-before"]["kernel"]["value"] = NASTY
    for kind in (EffectsPage, QualityPage):
        page = page_html(kind(data))
        assert forbidden_content(page) == []
        soup = BeautifulSoup(page, "html.parser")
        assert INERT in soup.get_text()
        assert not {"\x1b", "\x07", "\u202e"} & set(page)
        assert "49" not in soup.h1.get_text()
        assert all(image["src"].startswith("data:") for image in soup.find_all("img"))  # type: ignore[union-attr]


@pytest.mark.parametrize("value", ["a\x00b\x1b[0m\u200f\ud800c", "a\r\nb"])
def test_page_removes_control_characters(value):
    assert not set(clean(value)) - set("ab[0mc\n")


def test_page_tables_escape_cells_heads_and_captions():
    table = Table(NASTY, [Column(NASTY), Column("n", numeric=True)], [[NASTY, NASTY]], caption=NASTY)
    assert forbidden_content(to_html(table)) == []
    assert "<script>" not in to_html(table)
    assert to_text(table).count(clean(NASTY)) == 3
    assert to_markdown(table).count("<") == 0
    with pytest.raises(ValueError, match="1 cells under 2 columns"):
        Table("t", table.columns, [["x"]])


def test_page_with_failed_aa_arm_has_no_verdict(tmp_path):
    arms = {"baseline": Arm(), "aa": Arm(0.08, check="aa", label="A/A"), "one": Arm(0.06, label="one")}
    page = page_of(tmp_path, arms)
    text = text_of(page_html(page))
    assert page.answer().text.count("the A/A arm differs from the baseline") == 1
    assert "✕ A/A arm failed" in text
    assert "one is faster" not in text
    assert page.summary()["aa"] is False


def test_page_of_an_unfinished_run_says_so(tmp_path):
    """Trials that were planned and never executed are counted as such, not forgotten."""
    page = page_of(tmp_path, usual_arms(), name="usual")
    page.run_data.run_record.ended = None
    cut = page.run_data.trials[page.run_data.trials["slot"] <= 60]
    object.__setattr__(page.run_data, "trials", cut)
    assert "55 excluded: 48 not executed, 6 answers differ" in page.trust().text
    assert page.summary()["trials"] == 60


def test_pages_need_no_network_and_no_current_folder(tmp_path, monkeypatch):
    make_project(tmp_path, blocks=5)
    shutil.rmtree(Layout(tmp_path).notebooks)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    import loadbook as lb

    assert lb.effects_page("nginx-directives").run_data.paths.raw.is_relative_to(tmp_path)
    assert lb.load("nginx-directives").run == "20261120T101500"
    with pytest.raises(AttributeError, match="no verb 'nothing_like_this'"):
        lb.nothing_like_this  # noqa: B018
