"""`loadbook compare BEFORE AFTER`: what is read from files, folders and patterns, and what is said of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from command_line import exit_code
from loadbook.analyses.compare_files.compute import FilesComparison, compare_sides
from loadbook.analyses.compare_files.figure import RunsFigure
from loadbook.analyses.compare_files.page import build_block, headline, to_json, write_page
from loadbook.analyses.compare_files.sides import read_sides
from loadbook.core.errors import DataError, UsageError
from loadbook.report.html import forbidden_content
from loadbook.report.nodes import to_markdown
from loadbook.stats.results import Verdict
from tool_captures import FIXTURES

BY_HAND = FIXTURES / "by-hand"
PLAIN, ACCESS = str(BY_HAND / "plain-*.txt"), str(BY_HAND / "access-*.txt")


def wrk_report(
    rate: float, *, requests: int = 100_000, failed: int = 0, connections: int = 50, url: str = "http://10.0.0.7/"
) -> str:
    seconds = requests / rate
    errors = f"  Non-2xx or 3xx responses: {failed}\n" if failed else ""
    return (
        f"Running {seconds:.0f}s test @ {url}\n  2 threads and {connections} connections\n"
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n"
        "    Latency     3.21ms    6.27ms  75.31ms   90.55%\n    Req/Sec    21.24k     6.53k   31.50k    52.46%\n"
        f"  {requests} requests in {seconds:.2f}s, 20.00MB read\n{errors}"
        f"Requests/sec: {rate:9.2f}\nTransfer/sec: {20 / seconds:9.2f}MB\n"
    )


def write_runs(folder: Path, rates: list[float], **more: Any) -> Path:
    folder.mkdir(parents=True)
    for number, rate in enumerate(rates, 1):
        (folder / f"run-{number}.txt").write_text(wrk_report(rate, **more))
    return folder


NOISE = [0.0, 3.1, -2.2, 1.4, -4.0, 2.3, -0.7, 0.9, -1.6, 4.2]
BASE = [5000 + noise for noise in NOISE]
SLOW = [4750 + noise for noise in reversed(NOISE)]


def compare(*paths: Path | str, **options: object) -> FilesComparison:
    return compare_sides(read_sides([str(path) for path in paths]), **options)  # type: ignore[arg-type]


def only(result: FilesComparison) -> Verdict:
    (verdict,) = result.verdicts
    return verdict


def test_two_folders_of_ten_runs_have_a_verdict(tmp_path: Path) -> None:
    before, after = write_runs(tmp_path / "before", BASE), write_runs(tmp_path / "after", SLOW)
    result = compare(before, after, margin=0.02)
    assert only(result).kind == "worse"
    assert (
        headline(result, only(result)).replace("\u00a0", " ")
        == "after is slower by 5.00 % (95 % interval 4.95 to 5.05 %), 10 and 10 runs."
    )
    assert [file.requests for file in result.baseline.files] == [100_000] * 10
    assert [file.name for file in result.baseline.files][-1] == "run-10.txt"
    assert any("Order of the runs: not in the files" in line for line in result.limits)


def test_one_log_for_each_side_is_read_report_by_report(tmp_path: Path) -> None:
    for name, rates in (("old.log", BASE), ("new.log", SLOW)):
        (tmp_path / name).write_text(
            "".join(f"2026-02-11T08:14:07Z {line}\n" for r in rates for line in wrk_report(r).splitlines())
        )
    result = compare(tmp_path / "old.log", tmp_path / "new.log")
    (file,) = result.baseline.files
    assert (file.name, len(file.runs), file.tools, file.requests) == ("old.log", 10, ("wrk",), 1_000_000)
    assert only(result).kind == "worse"
    assert "without the prefix" in build_block(result).text


def test_recorded_runs_are_compared_unpaired_or_in_pairs() -> None:
    unpaired, paired = compare(PLAIN, ACCESS), compare(PLAIN, ACCESS, pairing="name")
    assert only(unpaired).comparison.runs == (6, 6) and only(paired).comparison.runs is None
    assert only(unpaired).kind == only(paired).kind == "worse"
    assert only(paired).comparison.method == "paired-t"


@pytest.mark.parametrize(
    ("before", "after", "says"), [(1, 1, "one run of each decides nothing"), (4, 9, "only 4 runs")]
)
def test_too_few_runs_give_the_difference_alone(tmp_path: Path, before: int, after: int, says: str) -> None:
    result = compare(
        write_runs(tmp_path / "before", BASE[:before]), write_runs(tmp_path / "after", SLOW[:after]), margin=0.02
    )
    sentence = headline(result, only(result))
    assert only(result).kind == "invalid" and says in sentence and "ok_per_s differs by −" in sentence


def test_undecided_runs_tell_how_many_more_would_decide(tmp_path: Path) -> None:
    noisy = [5000 + 40 * noise for noise in NOISE]
    shifted = [5060 + 40 * noise for noise in reversed(NOISE)]
    result = compare(write_runs(tmp_path / "a", noisy), write_runs(tmp_path / "b", shifted), margin=0.02)
    assert only(result).kind == "undecided"
    assert "more runs of each would decide" in headline(result, only(result))


def test_run_with_error_responses_does_not_count_and_errors_are_told(tmp_path: Path) -> None:
    before, after = write_runs(tmp_path / "before", BASE), write_runs(tmp_path / "after", SLOW[:9])
    (after / "run-10.txt").write_text(wrk_report(9000, failed=90_000))
    result = compare(before, after)
    assert only(result).comparison.runs == (10, 9)
    assert any("run-10.txt does not count" in line for line in result.doubts)
    assert any("1 of 10 trials had errors (90,000 error responses)" in line for line in result.errors)


def test_file_that_is_not_read_is_named_with_its_reason(tmp_path: Path) -> None:
    before, after = write_runs(tmp_path / "before", BASE), write_runs(tmp_path / "after", SLOW)
    (after / "notes.txt").write_text("nginx 1.28\n")
    (after / "run-11.txt").write_text(wrk_report(4750)[:150])
    result = compare(before, after)
    assert only(result).comparison.runs == (10, 10)
    assert any("notes.txt is no report of any tool" in line for line in result.doubts)
    assert any("run-11.txt" in line and "not complete" in line for line in result.doubts)
    assert "1 not read" in build_block(result).text


def test_copies_and_several_tools_are_told(tmp_path: Path) -> None:
    before, after = write_runs(tmp_path / "before", BASE), write_runs(tmp_path / "after", SLOW)
    shutil.copy(before / "run-1.txt", after / "run-11.txt")
    shutil.copy(FIXTURES / "ab" / "2.3--n20000_c50.stdout", after / "ab.txt")
    doubts = compare(before, after).doubts
    assert "after: run-11.txt does not count: it has all numbers of before: run-1.txt" in doubts
    assert any("several tools, which measure differently: before: wrk; after: ab, wrk" in line for line in doubts)


def test_copies_of_results_of_single_requests_are_told(tmp_path: Path) -> None:
    whole = FIXTURES / "jmeter" / "5.6.3--csv_all_columns.out.jtl"
    for side, names in (("before", ("run-1.jtl", "run-2.jtl")), ("after", ("run-3.jtl",))):
        (tmp_path / side).mkdir()
        for name in names:
            shutil.copy(whole, tmp_path / side / name)
    (tmp_path / "after" / "run-3.jtl").write_bytes(whole.read_bytes().replace(b"\n", b"\r\n"))
    doubts = compare(tmp_path / "before", tmp_path / "after").doubts
    assert "before: run-2.jtl does not count: it has all numbers of before: run-1.jtl" in doubts
    assert "after: run-3.jtl does not count: it has all numbers of before: run-1.jtl" in doubts


def test_intervals_are_wider_by_the_last_printed_digit(tmp_path: Path) -> None:
    before, after = write_runs(tmp_path / "a", BASE), write_runs(tmp_path / "b", SLOW)
    for number, file in enumerate([*sorted(before.iterdir()), *sorted(after.iterdir())]):
        mean = (8, 7, 8, 8, 8, 7, 8, 8, 8, 8)[number % 10] + (number >= 10)
        file.write_text(file.read_text().replace("3.21ms", f"0.0{mean}ms"))
    result = compare(before, after, metric="latency mean")
    verdict, row = only(result), result.rows["b"][0]
    assert row.comparison.ci95 is not None and row.comparison.ci95[0] > 0
    assert verdict.kind == "undecided" and verdict.comparison.ci95 is not None
    assert verdict.comparison.ci95[0] == pytest.approx((1 + row.comparison.ci95[0]) * (1 - 1 / 7) - 1)
    assert any("printed in steps of 14.3" in line for line in result.doubts)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["a", "a"], UsageError, "nothing to compare"),
        (["a", "a/run-1.txt"], UsageError, "belongs to"),
        (["a", "gone"], UsageError, "no file or folder"),
        (["a", "gone-*"], UsageError, "no file matches"),
        (["a", "empty"], DataError, "empty: no report that can be read"),
        ([f"a/run-{n}.txt" for n in range(1, 7)], UsageError, "which belong together"),
    ],
)
def test_mistakes_in_the_sides_are_named(
    tmp_path: Path, arguments: list[str], error: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_runs(tmp_path / "a", BASE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(error, match=says):
        compare(*arguments)


def test_open_and_closed_loads_are_not_compared_and_open_ones_by_a_time() -> None:
    wrk2 = FIXTURES / "wrk2" / "4.0.0--R2000_d14_latency.stdout"
    with pytest.raises(DataError, match="one load has a rate of its own"):
        compare(wrk2, BY_HAND / "plain-1.txt")
    other = wrk2.parent / "4.0.0--batch_B.stdout"
    assert compare(wrk2, other).question.key == ("latency_intended", "p99")
    vegeta = FIXTURES / "vegeta" / "12.13.0--every_text.stdout"  # without its command it tells no rate
    assert compare(vegeta, vegeta.with_name("12.13.0--freeze_text.stdout")).question.key == ("service_time", "p99")


def test_metric_that_no_report_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="no report has ttfb"):
        compare(PLAIN, ACCESS, metric="ttfb")
    assert only(compare(PLAIN, ACCESS, metric="latency p99")).comparison.metric == "latency"


def test_statistic_without_a_metric_is_refused_with_the_metric_it_could_be_of() -> None:
    with pytest.raises(UsageError, match="'p99' is a statistic, and of no metric") as refused:
        compare(PLAIN, ACCESS, metric="p99")
    assert refused.value.hint == "say --metric 'latency p99'"


def test_metric_of_which_every_run_has_0_has_no_ratio(tmp_path: Path) -> None:
    result = compare(write_runs(tmp_path / "a", BASE), write_runs(tmp_path / "b", SLOW), metric="errors")
    assert only(result).reason == "errors count is 0 in 10 runs of a and 10 runs of b: values of 0 have no ratio"
    assert "a: errors count is 0 in 10 runs, such as run-1.txt: values of 0 have no ratio, and are left out" in (
        result.doubts
    )


def test_direction_that_was_turned_round_is_told() -> None:
    for better, told in (("higher", True), ("lower", False)):
        text = build_block(compare(PLAIN, ACCESS, metric="latency p50", better=better)).text
        assert ("Against the usual direction, higher values are better here" in " ".join(text.split())) == told


def test_few_requests_beyond_a_percentile_are_a_doubt_only_where_it_decides() -> None:
    few = [FIXTURES / "hey" / f"0.1.5--{name}.stdout" for name in ("clean_text", "n_not_multiple")]
    for metric, told in (("ok_per_s", False), ("latency p50", False), ("latency p99", True)):
        result = compare(*few, metric=metric)
        remarks = build_block(result).text
        assert (any("too_short" in doubt for doubt in result.doubts), "too_short" in remarks) == (told, told)


def test_run_that_does_not_count_is_told_of_studies_only_as_such(tmp_path: Path) -> None:
    before = write_runs(tmp_path / "before", BASE[:5])
    (before / "run-6.txt").write_text(wrk_report(6000, failed=9000))
    (doubt,) = [text for text in compare(before, write_runs(tmp_path / "b", SLOW)).doubts if "does not count" in text]
    assert doubt.endswith("repair what fails; a study whose subject is failing raises validity.max_error_share.")


def test_page_text_markdown_and_json_tell_the_same_verdict(tmp_path: Path) -> None:
    result = compare(PLAIN, ACCESS, margin=0.02)
    write_page(result, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<figure>") == 1
    assert forbidden_content(page) == []
    sentence = headline(result, only(result))
    assert sentence in build_block(result).text and sentence in page
    assert sentence.replace("*", "\\*") in to_markdown(build_block(result))
    document = json.loads(json.dumps(to_json(result)))
    assert document["comparisons"][0]["verdict"] == "worse"
    assert len(document["sides"][0]["runs"]) == 6


def test_command_prints_json_and_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    code = exit_code(monkeypatch, "compare", PLAIN, ACCESS, "--margin", "0.02", "--json", "--html", str(page))
    assert code == 0 and page.is_file()
    assert json.loads(capsys.readouterr().out)["metric"] == "ok_per_s"


def test_figure_shows_every_run_and_whether_the_ranges_overlap(tmp_path: Path) -> None:
    before, after = write_runs(tmp_path / "before", BASE), write_runs(tmp_path / "after", SLOW)
    (after / "run-99.txt").write_text(wrk_report(4900, failed=100_000))  # does not count
    figure = RunsFigure(compare(before, after))
    (panel,) = figure.draw().axes
    crosses = [line for line in panel.lines if line.get_marker() == "x"]
    assert len(panel.lines) == 20 + len(crosses) and len(panel.collections) == 2
    assert [label.get_text() for label in panel.get_yticklabels()] == ["before", "after"]
    assert figure.caption == "The ranges of the two sides do not overlap."
    numbers = figure.description[1].replace("\N{NO-BREAK SPACE}", " ")
    assert numbers == "before: 10 runs from 4,996 /s to 5,004 /s; after: 10 runs from 4,746 /s to 4,754 /s."
    again = write_runs(tmp_path / "again", [rate + 1 for rate in BASE])
    assert RunsFigure(compare(before, again)).caption == "The ranges of the two sides overlap."
    assert RunsFigure(compare(before, after, again)).caption == "The range of again overlaps that of the baseline."


def test_loads_that_differ_as_printed_stand_beside_the_verdict(tmp_path: Path) -> None:
    before = write_runs(tmp_path / "before", BASE)
    after = write_runs(tmp_path / "after", SLOW, connections=100, url="http://10.0.0.8/big?x=1")
    result = compare(before, after)
    assert result.other_loads == "connections 50 of before, 100 of after; path / of before, /big?x=1 of after"
    assert f"The loads differ, and so the sides may: {result.other_loads}." in build_block(result).text
    assert to_json(result)["other_loads"] == result.other_loads
    mixed = write_runs(tmp_path / "mixed", SLOW)
    (mixed / "run-3.txt").write_text(wrk_report(4800, connections=400))
    assert compare(before, mixed).other_loads == "connections 50 of before, 50 and 400 of mixed"
    elsewhere = compare(before, write_runs(tmp_path / "elsewhere", SLOW, url="http://10.0.0.8/"))
    assert not elsewhere.other_loads and to_json(elsewhere)["other_loads"] is None
    assert elsewhere.limits[-1].endswith("which print connections, path, scheme and threads of the load")


def test_open_loads_at_other_rates_stand_beside_the_verdict() -> None:
    slow, fast = (str(FIXTURES / "wrk2" / f"4.0.0--{name}.stdout") for name in ("R1000_d13_U", "R2000_d14_latency"))
    assert "rate " in compare(slow, fast).other_loads
