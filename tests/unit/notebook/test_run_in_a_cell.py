"""One run in a cell: frames, comparisons, figures, raw bytes; every wrong name lists the right ones."""

import hashlib
import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from bs4 import BeautifulSoup

import loadbook as lb
from effort import some
from loadbook.core.errors import DataError, UsageError
from loadbook.core.text import nearest_names
from loadbook.notebook import compare
from loadbook.notebook.plots import Plots
from loadbook.report.figures import FIGURES
from loadbook.store import trial_record
from loadbook.store.tables import measured_windows_s
from recorded_run import INTERLEAVED_FIXTURE, STUDY, with_studies

FRAMES = ("trials", "measurements", "samples", "traces", "problems")


def text_of(displayed):
    return BeautifulSoup(displayed._repr_html_(), "html.parser").get_text(" ", strip=True)


def test_public_functions_have_docstrings_and_are_listed_by_completion():
    assert {"studies", "load", "run", "plan", "state", "ingest"} <= set(dir(lb))
    assert not [name for name in dir(lb) if name.endswith("_page")]
    for name in dir(lb):
        assert name.startswith("__") or getattr(lb, name).__doc__


def test_studies_table_lists_recorded_studies_first(run):
    found = lb.studies()
    row = found.frame.iloc[0]
    assert (row["study"], row["runs"], row["trials"], row["planned"], bool(row["complete"])) == (STUDY, 1, 32, 32, True)
    assert STUDY in repr(found) and "32 of 32" in text_of(found) and "lb.load(study)" in text_of(found)
    assert next(iter(found)) == STUDY and len(found) == len(found.frame)


def test_studies_table_survives_an_unreadable_study(run, home):
    bad = home.studies / "broken.toml"
    bad.write_text("blocks = ")
    try:
        rows = lb.studies().frame.set_index("study")
    finally:
        bad.unlink()
    assert "broken.toml" in rows.loc["broken", "problem"]
    assert rows.loc[STUDY, "runs"] == 1


def test_displayed_objects_fit_on_a_screen(run):
    displayed = [
        lb.plan(STUDY),
        lb.state(STUDY),
        lb.run(STUDY),
        run.data,
        run.provenance(),
        run,
        run.compare(),
        run.plot,
    ]
    assert all(len(repr(one).splitlines()) < 50 and "<" not in repr(one)[:200] for one in displayed)
    assert all("<style" in one._repr_mimebundle_()["text/html"] for one in displayed[:3])


def test_run_tables_are_pandas_data_frames(run):
    assert all(type(getattr(run, name)) is pd.DataFrame for name in FRAMES)
    assert len(run.trials) == 32
    assert list(run.wide("ok_per_s", "latency p99").columns[:8])[-2:] == ["ok_per_s", "latency p99"]


def test_resources_of_the_hosts_merge_to_trials(run):
    used = run.resources()
    cpus = used[(used["resource"] == "CPUs busy") & (used["host"] == "web")]
    merged = run.wide("ok_per_s").merge(cpus, on=["trial", "treatment", "block"])
    with_traces = set(run.traces.loc[run.traces["host"] == "web", "trial"])
    assert len(merged) == len(cpus) == len(with_traces) >= 31 and set(merged["trial"]) == with_traces
    assert (cpus["mean"] <= cpus["max"]).all()
    traces = run.traces[(run.traces["host"] == "web") & (run.traces["metric"] == "cpu_busy")]
    traces = traces[traces["trial"] == cpus["trial"].iloc[3]]
    traces = traces[traces["t_s"].between(0, measured_windows_s(run.data)[cpus["trial"].iloc[3]])]
    own = {f"cpu{n}" for n in run.data.run_record.hosts["web"].cpus}
    by_time = traces[traces["item"].isin(list(own))].groupby("t_s")["value"].sum()
    assert cpus["mean"].iloc[3] == pytest.approx(by_time.mean()) and cpus["max"].iloc[3] == by_time.max()


def test_resources_of_an_interleaved_block_are_one_row_for_all_its_trials(tmp_path, monkeypatch):
    layout = with_studies(tmp_path / "home")
    shutil.copytree(INTERLEAVED_FIXTURE, layout.study_raw("aa"))
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    run = lb.load("aa")
    used = run.resources()
    shared = used[used["trial"].isna()]
    blocks = run.trials[run.trials["execution"] == "interleaved"]["block"].unique()
    assert sorted(shared["block"].unique()) == sorted(blocks) and shared["treatment"].isna().all()
    assert not shared.duplicated(["block", "host", "resource"]).any()
    alone = run.trials[run.trials["execution"] != "interleaved"]["trial"]
    assert set(used["trial"].dropna()) == set(alone) and len(alone)


def test_run_display_lists_its_contents(run):
    for printed in (repr(run), text_of(run)):
        assert "31 of 32 count" in printed and "latency p99" in printed and "trials (32)" in printed
    assert {*FRAMES, "compare", "plot", "raw", "wide", "why", "only"} <= set(dir(run))
    assert not [name for name in dir(run) if name.startswith("_")]


def test_compare_answers_the_study_question_like_the_report(run):
    from loadbook.analyses.effects.page import EffectsPage

    found = run.compare()
    assert found.groups[""] == EffectsPage(run.data).analysis
    assert "As the study declared it" in repr(found) and "tcp_nopush on" in text_of(found)
    row = found.frame.set_index("treatment").loc["auto-nopush"]
    assert row["low"] < row["change"] < row["high"]
    assert len(found) == 3 and len(found.sentences) == 3


def test_compare_of_an_undeclared_metric_is_exploratory(run):
    found = run.compare("latency p99", baseline="auto-nopush", margin=0.1, level=0.9)
    printed = repr(found)
    assert "not declared before the run: metric latency p99 instead of ok_per_s; baseline auto-nopush" in printed
    assert set(found.frame["against"].dropna()) >= {"auto-nopush"}
    assert "margin 10" in printed and "level 0.9" in printed
    assert run.compare("ok_per_s").changed == ()


def test_comparison_of_some_treatments_keeps_the_harness_checks(run):
    found = run.compare(treatments="control-access-log").frame
    assert list(found["treatment"]) == ["baseline-auto", "baseline-again", "control-access-log"]


def test_compare_of_an_empty_run_is_an_error(run):
    with pytest.raises(DataError, match=r"no trial to compare") as reported:
        compare.compare(replace(run.data, trials=run.data.trials.iloc[:0]), compare.ComparisonRequest())
    assert "run.problems" in reported.value.hint


def test_compare_by_column_analyses_each_value(run):
    run.trials["half"] = ["first" if block <= 4 else "second" for block in run.trials["block"]]
    found = run.compare(by="half")
    assert list(found.groups) == ["first", "second"]
    assert set(found.frame["half"]) == {"first", "second"} and "half = second: " in repr(found)
    factor = run.compare(by="access_log")
    assert list(factor.groups) == ["off", "unbuffered"] and "control-access-log" in set(factor.frame["treatment"])
    alone = factor.frame[factor.frame["access_log"] == "unbuffered"]
    assert list(alone["kind"]) == ["baseline"]


def test_run_can_be_restricted_to_some_trials(run):
    less = run.only("block > 2")
    assert set(less.trials["block"]) == set(range(3, 9)) and len(less.traces) < len(run.traces)
    assert "8 of 32 trials left out by hand" in repr(less.compare())
    assert less.compare().frame["verdict"].dropna().ne("invalid").any()
    assert len(run.only(run.trials["valid"]).trials) == 31
    assert len(run.without("t0001", "t0002").trials) == 30
    assert len(run.without(run.slowest(2)["trial"]).trials) == 30
    assert "9 of 32 trials left out by hand" in repr(less.without("t0009"))


def test_methods_slowest_and_why_explain_slow_trials(run):
    slow = run.slowest(4)
    assert slow["away"].is_monotonic_increasing and slow["away"].iloc[0] < 0
    assert run.slowest(3, "latency p99")["away"].is_monotonic_decreasing
    why = run.why(slow["trial"][0])
    assert slow["trial"][0] in repr(why) and why.sentences
    assert "Too little was recorded" in repr(run.why("t0013"))


def test_slowness_is_measured_against_the_trials_that_count(run):
    data, name = run.data, run.data.study.metric
    away = data.trials["trial"] == data.trials["trial"].iloc[0]
    trials = data.trials.assign(valid=data.trials["valid"] & ~away)
    table = compare.slowest_trials(replace(data, trials=trials))
    for _, arm in table.groupby("treatment"):
        ratios = arm[name] / arm[name][arm["valid"]].median()
        assert list(arm["away"]) == pytest.approx(list(ratios - 1), nan_ok=True)


@pytest.mark.parametrize(
    ("ask", "wrong", "first"),
    [
        (lambda r: lb.load("recordd"), "no recorded study 'recordd'; did you mean 'recorded'?", "recorded: recorded"),
        (lambda r: lb.load(STUDY, "20261121-014527"), "no run '20261121-014527'", "runs: 20261121-014528"),
        (lambda r: r.compare("latency p98"), "no metric 'latency p98'", "measured there: latency p9"),
        (lambda r: r.compare("ok"), None, None),
        (lambda r: r.compare("okpers"), "no metric 'okpers'", "measured there: ok_per_s"),
        (lambda r: r.wide("speed"), "no metric 'speed'", "measured there: "),
        (lambda r: r.slowest(3, "latencyp99"), "no metric", "measured there: latency p99"),
        (lambda r: r.compare(baseline="baseline-atuo"), "no treatment", "treatments: baseline-auto"),
        (lambda r: r.compare(treatments=["nopush"]), "no treatment 'nopush'", "treatments: auto-nopush"),
        (lambda r: r.compare(by="acces_log"), "no column", "columns: access_log"),
        (lambda r: r.only("blok > 2"), "is no query", "columns: block"),
        (lambda r: r.compare(5), "no metric '5'", "measured there: "),
        (lambda r: r.compare(margin=2), "a margin of 2 is not between 0 and 1", "0.02 is 2 %"),
        (lambda r: r.slowest("latency p99"), "how many comes first, not 'latency p99'", None),
        (lambda r: r.only([True]), "a truth value for each of the 32 trials", None),
        (lambda r: r.only(["t0001"] * 32), "a truth value for each", None),
        (lambda r: r.only("block > 99"), "no trial is left", None),
        (lambda r: r.without("t99"), "no trial 't99'", None),
        (lambda r: r.why("t0100"), "no trial 't0100'", "trials: t0"),
        (lambda r: r.raw("t001"), "no trial 't001'", "trials: t0001"),
        (lambda r: r.raw("t0001", "stdout"), "no file 'stdout'", "files: stdout-driver"),
        (lambda r: r.plot.ordr(), "no figure 'ordr'", "figures: order"),
        (lambda r: r.plot.pairs("nopush"), "no comparison", "treatments: auto-nopush"),
        (lambda r: r.plot.traces(block=99), "no block", "blocks: "),
        (lambda r: r.plot.beside("t0099"), "no trial", "trials: t0009"),
        (lambda r: r.plot.cores("wbe"), "no host", "hosts: web"),
        (lambda r: r.plot.cores("web", block=99), "no block", "blocks: "),
        (lambda r: r.plot.order("latency p98"), "no metric", "measured there: latency p9"),
        (lambda r: r.plot.order().save("x.exe"), "no kind of picture", "kinds: "),
        (lambda r: r.measurments, "no attribute", "attributes: measurements"),
        (lambda r: lb.state("recordd"), "no study .recordd. in .*did you mean .recorded.", None),
        (lambda r: lb.ingest("recordd"), "no study .recordd. in .*did you mean .recorded.", None),
        (lambda r: lb.plan("recordd"), "no study .recordd. in .*did you mean .recorded.", None),
        (lambda r: lb.run("recordd"), "no study .recordd. in .*did you mean .recorded.", None),
        (lambda r: lb.stuides(), "no verb 'stuides'", "verbs: studies"),
    ],
)  # fmt: skip
def test_error_about_a_wrong_name_lists_known_names_by_similarity(run, ask, wrong, first):
    if wrong is None:
        ask(run)
        return
    with pytest.raises(UsageError, match=wrong) as caught:
        ask(run)
    if first:
        assert caught.value.hint.startswith(first)
    assert caught.value._render_traceback_()[0].endswith(caught.value.message)


def test_loading_a_study_without_a_run_suggests_the_run_command(run):
    with pytest.raises(UsageError, match="'noise' has no run yet") as caught:
        lb.load("noise")
    assert "lb.run('noise', execute=True)" in caught.value.hint


def test_suggestions_are_sorted_by_similarity():
    assert nearest_names("latenci", ["errors", "ok", "latency"])[0] == "latency"
    assert nearest_names("", ["b", "a"]) == ["b", "a"]
    assert nearest_names("x" * 10_000, ["b", "a"]) == ["b", "a"]


def test_raw_file_is_shown_with_its_checksum(run, home):
    found = run.raw("t0001")
    path = run.data.paths.trial("t0001") / "stdout-driver"
    assert found.bytes == path.read_bytes() and found.sha256 == hashlib.sha256(found.bytes).hexdigest()
    for printed in (repr(found), text_of(found)):
        assert (
            found.sha256 in printed and "as recorded" in printed and "Requests/sec" in printed and "wrk -t1" in printed
        )
    assert run.raw("t0013-attempt1").record.status == "tool_failed"
    assert "nginx" in run.raw("t0001", "config-web-web/nginx.conf").text


def test_raw_file_with_hostile_bytes_is_shown_as_text(run, tmp_path):
    from loadbook.notebook.run import Raw

    folder = tmp_path / "t0001"
    folder.mkdir()
    nasty = b"</pre><script>alert(1)</script>\x1b[31mred\x00\xff\xe2\x80\xae<img src=x onerror=alert(2)>"
    (folder / "stdout-driver").write_bytes(nasty)
    displayed = Raw(trial_record.seal_trial(folder, run.raw("t0001").record), folder, "stdout-driver")
    html = BeautifulSoup(displayed._repr_html_(), "html.parser")
    assert not html.find_all(["script", "img"]) and "alert(1)" in html.pre.get_text()
    assert not set("\x1b\x00\u202e") & set(displayed._repr_html_() + repr(displayed))
    (folder / "stdout-driver").write_bytes(b"other")
    assert "NOT as recorded" in repr(Raw(displayed.record, folder, "stdout-driver"))
    (folder / "stdout-driver").unlink()
    assert "gone" in repr(Raw(displayed.record, folder, "stdout-driver"))


def test_raw_file_that_is_large_is_shown_in_part(run, tmp_path):
    from loadbook.notebook.run import MAX_BYTES, Raw

    folder = tmp_path / "t0001"
    folder.mkdir()
    (folder / "stdout-driver").write_bytes(b"x" * 5_000_000)
    displayed = Raw(trial_record.seal_trial(folder, run.raw("t0001").record), folder, "stdout-driver")
    assert len(repr(displayed)) < MAX_BYTES + 2000 and "beginning of 4.8" in repr(displayed)


def test_raw_file_outside_the_trial_folder_is_refused(run, home, tmp_path):
    from loadbook.notebook.run import read_raw
    from loadbook.store.paths import RunPaths

    paths = RunPaths(tmp_path, tmp_path)
    folder = paths.trial("t0001")
    folder.mkdir(parents=True)
    record = json.loads((run.data.paths.trial("t0001") / "trial.json").read_text())
    record["files"]["../../secret"] = {"size": 1, "sha256": "0" * 64}
    (folder / "trial.json").write_text(json.dumps(record))
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(DataError, match="not a trial record"):
        read_raw(paths, "t0001", "../../secret")


PLOTS = sorted(name for name in vars(Plots) if not name.startswith("_"))


def test_every_figure_is_a_documented_plot_method(run):
    assert sorted(dir(run.plot)) == PLOTS
    assert len(PLOTS) == len(FIGURES) - 1  # all but that of a study's history
    assert all(getattr(Plots, name).__doc__ for name in dir(run.plot))
    assert all(name in repr(run.plot) for name in dir(run.plot))


CANNOT = {"distribution", "factorial", "scaling", "connections", "page_size", "noise", "two_runs"}
NEEDS = {"beside": ("t0002",)}


@pytest.mark.parametrize("name", some(PLOTS, 5))
def test_every_figure_is_drawn_or_gives_the_reason(run, name):
    def ask():
        return getattr(run.plot, name)(*NEEDS.get(name, ()))

    if name in CANNOT:
        with pytest.raises(UsageError) as caught:
            ask()
        assert caught.value.hint
        return
    drawn = ask()
    assert drawn.answer in repr(drawn)
    assert drawn._repr_html_().count("data:image/svg+xml,") == 1


def test_figure_can_be_saved(run, tmp_path):
    out = run.plot.order("latency p99").save(str(tmp_path / "order.png"))
    assert out.read_bytes().startswith(b"\x89PNG")


def test_loading_a_run_makes_its_missing_tables(run, home):
    for table in run.data.paths.processed.glob("*.parquet"):
        table.unlink()
    assert len(lb.load(STUDY).trials) == 32
