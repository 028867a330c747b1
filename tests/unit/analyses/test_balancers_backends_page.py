"""The page of the ways to an application: conditions judged apart, connections per request, the article's claims."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from backends_runs import STUDIES, TRUTH, project
from figure_legibility import must_be_legible
from loadbook.analyses.balancers import compute
from loadbook.analyses.balancers.figure import ConnectionsFigure
from loadbook.analyses.balancers.page import BackendsPage
from loadbook.analyses.claims.checks import check_claims
from loadbook.analyses.effects.page import EffectsPage
from loadbook.analyses.quality import QualityPage
from loadbook.core.errors import StudyError, UsageError
from loadbook.notebook.run import Run
from loadbook.stats.results import AnalysisRow
from loadbook.store.tables import load_run, strata_of
from loadbook.study.reader import read_study
from mock_project import make_project


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> BackendsPage:
    return project(tmp_path_factory.mktemp("backends"))


def test_backends_page_names_the_fastest_connection_type_in_both_conditions(page: BackendsPage) -> None:
    text = page.answer().text
    assert "Near and remote: http_proxy with keep-alive is the fastest way to the application." in text
    assert "Near: next is http_proxy, slower by " in text and "; static file faster by " in text
    assert page.summary()["verdict"]["kind"] == "better"
    assert page.summary()["notebook"] == "backend_modes"


def test_backends_page_has_a_baseline_and_harness_checks_per_condition(page: BackendsPage) -> None:
    near, remote = page.strata.values()
    assert list(page.strata) == ["near", "remote"]
    assert near.analysis.baseline == "near-proxy" and remote.analysis.baseline == "remote-proxy"
    rows = {row.treatment: row for row in page.analysis.rows}
    assert rows["remote-control"].verdict.comparison.baseline == "remote-proxy"
    assert rows["remote-proxy-again"].passed and rows["near-control"].passed
    assert -0.2 < rows["remote-fastcgi"].verdict.comparison.effect + 0.25 < 0.2
    assert (
        rows["remote-fastcgi"].label == "remote: FastCGI" and remote.analysis.row("remote-fastcgi").label == "FastCGI"
    )
    assert "A/A arm passed" in page.trust().text and "Known effect found" in page.trust().text


def test_backends_page_of_another_metric_than_a_rate_names_the_best_connection_type(page: BackendsPage) -> None:
    text = BackendsPage(page.run_data, "latency").answer().text
    assert "fastest" not in text and re.search(r"\b(is|the) best\b", text)


def test_backends_page_gives_separate_answers_when_conditions_disagree(tmp_path: Path) -> None:
    reported = project(tmp_path, TRUTH | {"remote-pooled": -0.8, "remote-fastcgi": -0.7}).answer().text
    assert "Near: http_proxy with keep-alive is fastest; remote: FastCGI is fastest." in reported


def test_backends_page_lists_all_connection_types_that_may_be_fastest(tmp_path: Path) -> None:
    tied = project(tmp_path, TRUTH | {"remote-pooled": -0.8, "remote-fastcgi": -0.8})
    assert "may be fastest" in tied.answer().text
    assert tied.summary()["verdict"]["kind"] == "undecided"


def test_backends_page_states_which_condition_has_no_verdict(tmp_path: Path) -> None:
    few = project(tmp_path, blocks=3)
    assert few.answer().text.splitlines()[0] == "Near: no verdict; remote: no verdict."
    assert few.summary()["verdict"]["kind"] == "invalid"


def test_backends_page_condition_with_failed_aa_arm_has_no_verdict(tmp_path: Path) -> None:
    void = project(tmp_path, TRUTH | {"near-proxy-again": 0.5})
    text = void.answer().text
    assert text.splitlines()[0] == "No verdict: the A/A arm differs from the baseline."
    assert "is fastest" not in text
    assert void.summary()["verdict"]["kind"] == "invalid" and void.summary()["aa"] is False
    assert "✕ A/A arm failed: near: http_proxy, again +5" in void.trust().text


def test_backends_page_counts_a_missing_harness_check_as_not_passed(page: BackendsPage) -> None:
    trials = page.run_data.trials.assign(
        valid=page.run_data.trials["valid"] & (page.run_data.trials["treatment"] != "remote-proxy-again")
    )
    reported = BackendsPage(replace(page.run_data, trials=trials)).trust().text
    assert "! A/A arm not checked: remote: http_proxy, again could not be compared" in reported


def test_backends_page_with_failed_aa_arms_has_no_verdict(tmp_path: Path) -> None:
    void = project(tmp_path, TRUTH | {"near-proxy-again": 0.5, "remote-proxy-again": -0.5})
    assert void.answer().text.splitlines()[0] == "No verdict: the A/A arm differs from the baseline."
    assert "is fastest" not in void.answer().text and void.summary()["verdict"]["word"] == "no verdict"


def test_backends_page_reports_a_failed_positive_control(page: BackendsPage, tmp_path: Path) -> None:
    missed = project(tmp_path, TRUTH | {"near-control": 0.0}).answer()
    line = "Other effects may be missed, too. The verdicts may not hold."
    assert missed.text.splitlines()[1] == line
    assert "may be missed" in missed.html and "may be missed" not in page.answer().html


def test_backends_page_shows_connection_reuse_of_all_conditions(page: BackendsPage) -> None:
    text = page.connections().text
    assert "Connections are used again by near: http_proxy with keep-alive (1 for 3,300 requests)" in text
    assert "every other way opens 1.00 per request" in text and "static" not in text
    assert (
        BackendsPage(replace(page.run_data, traces=page.run_data.traces[:0])).connections().text.startswith("Not known")
    )


def test_backends_page_checks_article_claims_within_conditions(page: BackendsPage) -> None:
    text = page.published().text
    assert text.count("holds here") == 3 and "pooled http_proxy is the best backend (remote)" in text


@functools.cache
def drawn(case: str, root: Path):
    page = project(root)
    found = compute.connections_per_request(page.run_data.traces, page.run_data.trials, ["app"])
    if case == "none-opened":
        found["value"] = 0.0
    if case == "excluded":
        found["valid"] = False
    return ConnectionsFigure(page.analysis, found).draw()


@pytest.mark.parametrize("case", ["plain", "none-opened", "excluded"])
def test_backends_figure_texts_are_complete_and_do_not_overlap(case: str, tmp_path: Path) -> None:
    figure = drawn(case, tmp_path)
    must_be_legible(figure)


@pytest.mark.parametrize(
    ("value", "printed"),
    [(1.0, "1.00 per request"), (0.75, "0.75 per request"), (0.0, "none opened"), (1 / 2345, "1 for 2,300 requests"),
     (0.25, "1 for 4 requests")],
)  # fmt: skip
def test_backends_page_states_connections_per_request(value: float, printed: str) -> None:
    assert compute.per_request_text(value) == printed


def test_study_without_separate_conditions_is_analysed_as_a_whole(page: BackendsPage) -> None:
    plain = replace(page.run_data, study=page.run_data.study.model_copy(update={"stratify_by": None}))
    assert list(strata_of(plain)) == [""]


def test_stratified_study_needs_a_baseline_in_every_stratum(tmp_path: Path) -> None:
    text = (STUDIES / "backend-modes.toml").read_text()
    for wrong, where in (
        ('stratify_by = "regime"|stratify_by = "regme"', "stratify_by"),
        ('same_as = "remote-proxy"|same_as = "remote-pooled"', "treatments.remote-proxy-again.check"),
        ('set = { regime = "remote" }\nworkload|set = { regime = "remote", work = 200 }\nworkload',
         "treatments.remote-proxy"),
    ):  # fmt: skip
        (tmp_path / "backend-modes.toml").write_text(text.replace(*wrong.split("|"), 1))  # type: ignore[arg-type, call-arg]
        with pytest.raises(StudyError) as caught:
            read_study(tmp_path / "backend-modes.toml")
        assert where in [p.path for p in caught.value.problems]


def test_article_claims_have_the_same_outcomes_on_page_and_command_line(tmp_path: Path) -> None:
    void = project(tmp_path, TRUTH | {"near-proxy-again": 0.5})
    found = {one.claim.claim: one.finding for one in check_claims(void.run_data.study, void.run_data)}
    near, remote = (found[f"pooled http_proxy is the best backend ({where})"] for where in ("near", "remote"))
    assert near.outcome == "unchecked" and near.evidence.startswith(
        "No verdict: the A/A arm differs from the baseline."
    )
    assert remote.outcome == "holds" and remote.evidence in void.published().text


def test_every_page_analyses_the_strata_of_the_study_separately(page: BackendsPage) -> None:
    for other in (EffectsPage(page.run_data), QualityPage(page.run_data)):
        rows = {row.treatment: row for row in other.analysis.rows}
        assert rows["remote-fastcgi"].verdict.comparison.baseline == "remote-proxy"
        assert rows["remote-proxy-again"].passed and rows["remote-proxy"].kind == "baseline"
    usual = EffectsPage(page.run_data)
    assert usual.effects().text.startswith("Near\n") and "\nRemote\n" in usual.effects().text
    assert "; near: http_proxy with keep-alive" in usual.answer().text and usual.summary()["aa"] is True
    assert usual.published().text == page.published().text


def test_requested_baseline_applies_to_every_stratum(page: BackendsPage) -> None:
    requested = EffectsPage(page.run_data, "near-fastcgi")
    assert list(requested.strata) == [""]
    assert {row.verdict.comparison.baseline for row in requested.analysis.of_kind("treatment")} == {"near-fastcgi"}


def test_backends_page_refuses_a_study_without_backends(tmp_path: Path) -> None:
    data = load_run(make_project(tmp_path, name="plain-study"), "plain-study")
    with pytest.raises(UsageError, match="no treatment of study 'plain-study' hands requests on"):
        BackendsPage(data).answer()


def test_notebook_cell_uses_the_same_strata_as_the_page(page: BackendsPage) -> None:
    run = Run(page.run_data)
    own = run.compare()
    rows = own.frame[own.frame["verdict"].notna()]
    displayed = {
        (part, row.treatment, row.verdict.kind) for part, one in page.strata.items() for row in verdicts_of(one)
    }
    assert set(rows[["regime", "treatment", "verdict"]].itertuples(index=False, name=None)) == displayed
    assert own.changed == ()
    assert list(run.compare(treatments="remote-pooled").groups) == ["remote"]
    assert "against the baseline." in repr(run.plot.effects())


def verdicts_of(part: EffectsPage) -> list[AnalysisRow]:
    return [row for row in part.analysis.rows if row.verdict]
