"""A treatment that answers with errors is the headline wherever a headline is printed."""

from dataclasses import replace

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from loadbook.analyses.effects.figure import EffectsFigure
from loadbook.analyses.effects.page import EffectsPage
from loadbook.batch.index import write_index
from loadbook.report import html
from loadbook.stats.ci import assess_run
from loadbook.store.tables import load_run
from loadbook.study.limits import CiPolicy
from mock_project import Arm, make_project

REASON = 'limiting connections by zone "addr"'
HEADLINE = f"tuned refuses 82\u00a0% of its requests with status 503 (its log: {REASON})."


def refused(data, names):
    """Return a run in which these treatments answer 82 % of their requests with status 503."""
    own = data.trials["trial"][data.trials["treatment"].isin(names)]
    rows = data.measurements
    requests = rows[rows["trial"].isin(own) & (rows["metric"] == "requests")]
    errors = requests.assign(value=(requests["value"] * 0.82).round())
    texts = [f"503: {value:.0f}" for value in errors["value"]]
    more = [errors.assign(metric="errors_status"), errors.assign(metric="status_5xx", text=texts)]
    kept = rows[~(rows["trial"].isin(own) & rows["metric"].isin(["errors", "errors_timeout"]))]
    problems = [
        {"trial": trial, "name": name, "level": level, "message": message}
        for trial in own
        for name, level, message in (("error_responses", "invalid", "712 of 868"), ("error_log", "note", REASON))
    ]
    trials = data.trials.assign(valid=data.trials["valid"] & ~data.trials["trial"].isin(own))
    return replace(
        data,
        trials=trials,
        measurements=pd.concat([kept, *more], ignore_index=True),
        problems=pd.concat([data.problems, pd.DataFrame(problems)], ignore_index=True),
    )


@pytest.fixture
def project(tmp_path):
    arms = {"as-is": Arm(), "aa": Arm(check="aa"), "tuned": Arm(0.1), "other": Arm(0.2)}
    return make_project(tmp_path, arms, name="limit", blocks=6)


def page_of(project, *names, treatments=("as-is", "aa", "tuned")):
    data = load_run(project, "limit")
    kept = data.trials["treatment"].isin(treatments)
    data = replace(data, trials=data.trials[kept], plan=replace(data.plan, treatments=tuple(treatments)))
    return EffectsPage(refused(data, names))


def test_refusals_are_the_headline_of_page_index_terminal_and_figure(project):
    page = page_of(project, "tuned")
    assert page.answer().text.startswith(HEADLINE)
    assert "more errors: 6 of 6 trials had errors" in page.answer().text.partition("\n")[2]
    summary = page.summary()
    assert summary["verdict"] == {"kind": "invalid", "glyph": "✕", "word": "errors", "sentence": HEADLINE}
    assert summary["sentences"][0] == HEADLINE
    assert EffectsFigure(page.analysis).caption.startswith(HEADLINE.rstrip("."))
    html.write_summary(project.reports, summary)
    index = BeautifulSoup(write_index(project.reports).read_text(), "html.parser")
    assert HEADLINE in index.find("td", attrs={"data-name": "Verdict"}).text


def test_build_gate_names_refusals_first(project):
    def gate(*names, treatments=("as-is", "aa", "tuned")):
        page = page_of(project, *names, treatments=treatments)
        return assess_run(CiPolicy(undecided="pass"), page.analysis, page.run_data)

    alone, one = gate("tuned"), gate("tuned", treatments=("as-is", "aa", "tuned", "other"))
    assert alone.exit_code == one.exit_code == 4
    assert alone.sentence == f"Build gate: no verdict: {HEADLINE}"
    assert one.sentence.startswith(f"Build gate: no verdict. {HEADLINE}")
    assert gate("as-is").sentence == f"Build gate: no verdict: {HEADLINE.replace('tuned', 'as-is')}"


def test_baseline_that_refuses_is_the_headline(project):
    assert page_of(project, "as-is").answer().text.startswith(HEADLINE.replace("tuned", "as-is"))


def test_refusal_of_one_of_several_treatments_stands_above_the_verdict_on_the_others(project):
    page = page_of(project, "tuned", treatments=("as-is", "aa", "tuned", "other"))
    answer = page.answer_summary()
    assert answer.errors == (HEADLINE,)
    assert "other" in answer.headline and "refuses" not in answer.headline
