"""Imported results are a run like any other: raw byte for byte, tables, statistics; what is not known stays so."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import pytest
from bs4 import BeautifulSoup

from import_files import BY_HAND, capture, folder, project, rows, write
from loadbook.analyses.effects.page import effects_page
from loadbook.core.errors import DataError, UsageError
from loadbook.imported.earlier import added_blocks, find_same_import
from loadbook.imported.study import (
    ImportOptions,
    read_import,
    to_valid_name,
    unique_names,
    write_import,
)
from loadbook.ingestion.ingest import ingest
from loadbook.report.checks import rounding_doubts
from loadbook.report.page import scope_parts
from loadbook.report.sections import provenance_pairs
from loadbook.stats.analyse import analyse
from loadbook.store import trial_record
from loadbook.store.ledger import is_run_complete, read_ledger, trial_states
from loadbook.store.run_record import read_run_record
from loadbook.store.tables import load_run
from loadbook.store.verify import verify_run
from loadbook.study.reader import read_study
from loadbook.tools import base
from loadbook.tools.base import ToolOutput


@pytest.fixture
def layout(tmp_path):
    return project(tmp_path)


def imported(layout, there, tool=None, **requested):
    """Import a folder and return its run, loaded."""
    made = read_import(
        there, there / "conditions.csv", ImportOptions(**{"name": "", "baseline": "plain"} | requested), tool
    )
    run = write_import(layout, made)
    ingest(layout.run(made.name, run))
    return load_run(layout, made.name, run)


def problems(data, level):
    found = data.problems[data.problems["level"] == level]
    return {
        (name, trial if isinstance(trial, str) else None)
        for name, trial in zip(found["name"], found["trial"], strict=True)
    }


def test_import_stores_outputs_byte_for_byte_and_the_conditions_file(layout, tmp_path):
    data = imported(layout, folder(tmp_path))
    assert (data.paths.raw / "conditions.csv").read_bytes() == (BY_HAND / "conditions.csv").read_bytes()
    for trial, printed in zip(data.trials.itertuples(), rows(BY_HAND), strict=True):
        there = data.paths.trial(trial.trial)
        record = trial_record.read_trial(there)
        assert (there / "stdout-driver").read_bytes() == (BY_HAND / printed["file"]).read_bytes()
        assert trial_record.changed_files(there, record) == []
        assert (record.drivers[0].source, trial.block) == (printed["file"], int(printed["block"]))
        assert data.study.label(trial.treatment) == printed["treatment"]
        assert trial.factor_access_log == printed["factor_access_log"]
    assert sorted(p.name for p in data.paths.raw.parent.iterdir()) == [".lock", data.run]


def test_import_writes_a_complete_run_that_passes_verification(layout, tmp_path):
    data = imported(layout, folder(tmp_path))
    assert read_study(data.paths.study_toml).model_copy(update={"execution": "plain"}) == data.study
    assert is_run_complete(data.paths)
    assert {s.status for s in trial_states(read_ledger(data.paths.ledger)).values()} == {"ok"}
    checked = verify_run(data.paths)
    assert (checked.attempts, checked.findings, checked.uncovered) == (18, [], [])
    assert (data.run_record.provenance, data.run_record.seed, data.plan.seed) == ("imported", None, None)
    assert data.run_record.ended - data.run_record.started == 54
    raw = (BY_HAND / "plain-1.txt").read_bytes()
    known = {(m.metric, m.statistic): m.value for m in base.load_tool("wrk").parse(ToolOutput(raw)).measurements}
    first = data.values("ok_per_s").set_index("trial").loc["t0002"]
    assert (first["treatment"], first["value"]) == ("plain", known["ok_per_s", "value"])


def test_import_statistics_find_the_known_effect(layout, tmp_path):
    analysis = analyse(imported(layout, folder(tmp_path)))
    assert analysis.row("access-log").verdict.kind == "worse"
    assert analysis.row("access-log").verdict.comparison.effect == pytest.approx(-0.2, abs=0.04)
    assert analysis.row("tcp_nopush-on").verdict.comparison.blocks == 6


def test_import_marks_validity_rules_without_evidence_as_unchecked(layout, tmp_path):
    data = imported(layout, folder(tmp_path))
    unchecked = {name for name, _ in problems(data, "unchecked")}
    assert unchecked >= {
        *("config_not_live", "shared_cores", "wrong_response", "not_at_rest", "stolen_cpu", "foreign_cpu"),
        *("driver_saturated", "monitor_gaps", "clock", "facts_differ", "server_identity"),
    }
    assert problems(data, "doubt") == problems(data, "invalid") == set()
    assert data.trials["concurrency"].isna().all() and data.trials["tool_version"].isna().all()
    assert data.trials["valid"].all() and (data.trials["load_model"] == "closed").all()


def test_import_with_a_missing_time_raises_a_doubt_about_the_order(layout, tmp_path):
    there = folder(tmp_path)
    printed = rows(there)
    del printed[4]["started"]
    write(there, printed)
    data = imported(layout, there)
    assert problems(data, "doubt") == {("order_not_random", None)}
    message = data.problems[data.problems["level"] == "doubt"]["message"].item()
    assert message.startswith("for 1 of 18 trials it is not known when they began: ")
    assert list(data.trials["slot"]) == list(range(1, 19))
    assert list(data.trials["block"]) == sorted(data.trials["block"])  # the other times do not move this trial


@pytest.mark.parametrize("key", [lambda r: r["treatment"], lambda r: r["block"], lambda r: r["file"][::-1]])
def test_import_without_times_does_not_depend_on_the_order_of_lines(layout, tmp_path, key):
    there = folder(tmp_path)
    lines = [{name: text for name, text in row.items() if name != "started"} for row in rows(there)]
    write(there, sorted(lines, key=key))
    row = analyse(imported(layout, there)).row("access-log")
    assert row.verdict.kind == "worse"
    assert row.verdict.comparison.effect == pytest.approx(-0.200581, abs=1e-6)


def test_import_orders_trials_by_their_times(layout, tmp_path):
    there = folder(tmp_path)
    write(there, sorted(rows(there), key=lambda r: r["file"]))  # type: ignore[arg-type, return-value]
    data = imported(layout, there)
    sources = [trial_record.read_trial(data.paths.trial(t)).drivers[0].source for t in data.trials["trial"]]
    assert sources == [r["file"] for r in rows(BY_HAND)]


def test_import_reads_one_folder_per_output(layout, tmp_path):
    there = tmp_path / "ab runs"
    there.mkdir()
    printed = [
        {"file": capture(there, "ab", f"2.3--{case}"), "treatment": arm, "block": block, "host": "load1"}
        for case, arm, block in (
            *(("csv_tsv_n300", "plain", 1), ("csv_gnuplot", "other", 1)),
            *(("n20000_c50", "plain", 2), ("chunked", "other", 2)),
        )
    ]
    write(there, printed)
    data = imported(layout, there)
    assert (data.study.name, set(data.trials["tool"])) == ("ab-runs", {"ab"})
    record = trial_record.read_trial(data.paths.trial("t0001"))
    driver = record.drivers[0]
    assert (driver.host, driver.argv[0], driver.rc, set(driver.files)) == ("load1", "ab", None, {"pct.csv", "plot.tsv"})
    assert set(record.files) == {"stdout-load1", "stderr-load1", "load1-cmd", "load1-pct.csv", "load1-plot.tsv"}
    printed = data.measurements[(data.measurements["trial"] == "t0001") & (data.measurements["metric"] == "latency")]
    assert "p99" in set(printed["statistic"])


def test_import_reads_stderr_exit_code_and_command_files(layout, tmp_path):
    there = folder(tmp_path)
    (there / "err.txt").write_bytes(b"a warning\n")
    (there / "rc.txt").write_text("0\n")
    (there / "cmd.txt").write_text("taskset -c 0 wrk -t1 -c50 http://192.0.2.1/\n")
    printed = rows(there)
    printed[0] |= {"stderr": "err.txt", "exit_code": "rc.txt", "command": "cmd.txt"}
    printed[1] |= {"exit_code": "137", "command": "wrk -d1s 'http://192.0.2.1/?a=1&b=2'", "duration": "1.5"}
    write(there, [dict.fromkeys((*printed[0], "duration"), "") | r for r in printed])
    data = imported(layout, there)
    first, second = (
        trial_record.read_trial(place) for place in (data.paths.trial("t0001"), data.paths.failed / "t0002-attempt1")
    )
    assert (data.paths.trial("t0001") / "stderr-driver").read_bytes() == b"a warning\n"
    assert (first.drivers[0].rc, first.drivers[0].argv) == (0, ["wrk", "-t1", "-c50", "http://192.0.2.1/"])
    assert (second.status, second.drivers[0].argv[2]) == ("tool_failed", "http://192.0.2.1/?a=1&b=2")
    row = data.trials.set_index("trial").loc["t0002"]
    assert (row["status"], row["valid"], row["duration_s"]) == ("tool_failed", False, 1.5)
    assert "t0002" not in set(data.measurements["trial"])


def test_import_cells_count_more_than_the_files_in_the_folder_of_an_output(layout, tmp_path):
    there = tmp_path / "runs"
    for name in ("one", "two"):
        shutil.copytree(BY_HAND, there / name, ignore=lambda _, names: names)
        shutil.copy(BY_HAND / "plain-1.txt", there / name / "stdout")
        (there / name / "rc").write_text("1\n")
        (there / name / "cmd").write_text("wrk -t1 http://192.0.2.1/file\n")
    printed = {"block": 1, "exit_code": "0", "command": "wrk -t1 http://192.0.2.1/cell"}
    files = [{"file": "one", "treatment": "plain"} | printed, {"file": "two", "treatment": "other", "block": 1}]
    made = read_import(there, write(there, files), ImportOptions("", baseline="plain"))
    sources = {planned.treatment: report.source for planned, report in made.pairs}
    assert (sources["plain"].rc, sources["plain"].command) == (0, "wrk -t1 http://192.0.2.1/cell")
    assert (sources["other"].rc, sources["other"].command) == (1, "wrk -t1 http://192.0.2.1/file")


def test_import_records_an_unparsable_output_as_a_problem(layout, tmp_path):
    there = folder(tmp_path)
    (there / "plain-2.txt").write_bytes((BY_HAND / "plain-2.txt").read_bytes()[:300])
    (there / "plain-3.txt").write_bytes(b"")
    data = imported(layout, there)
    bad = {t.trial for t in data.trials.itertuples() if t.treatment == "plain" and t.block in (2, 3)}
    assert problems(data, "invalid") == {("unreadable-output", trial) for trial in bad}
    assert set(data.trials.loc[~data.trials["valid"], "trial"]) == bad


def test_import_of_two_identical_outputs_raises_a_doubt(layout, tmp_path):
    there = folder(tmp_path)
    shutil.copy(there / "plain-1.txt", there / "plain-2.txt")
    data = imported(layout, there)
    assert {name for name, _ in problems(data, "doubt")} == {"same_output"}


def test_import_of_two_identical_results_of_jmeter_raises_a_doubt(layout, tmp_path):
    whole = (BY_HAND.parent / "jmeter" / "5.6.3--csv_all_columns.out.jtl").read_bytes()
    there = tmp_path / "jtl"
    there.mkdir()
    rows = []
    for block in (1, 2):
        for arm in ("plain", "other"):
            name = f"{arm}-{block}.jtl"
            (there / name).write_bytes(whole)
            rows.append({"file": name, "treatment": arm, "block": block})
    write(there, rows)
    data = imported(layout, there, metric="requests_per_s")
    assert [name for name, trial in problems(data, "doubt") if trial].count("same_output") == 3


def test_import_with_a_column_offered_per_s_is_an_open_load(layout, tmp_path):
    there = tmp_path / "rates"
    there.mkdir()
    cases = ("r8000_n40000", "saturated_r20000", "apache_event", "s302")
    arms = (("plain", 1), ("other", 1), ("plain", 2), ("other", 2))
    stems = [next(p.stem for p in (BY_HAND.parent / "httperf").glob(f"*--{case}.json")) for case in cases]
    write(there, [
        {"file": capture(there, "httperf", stem, whole=False), "treatment": arm, "block": block}
        for stem, (arm, block) in zip(stems, arms, strict=True)
    ])  # fmt: skip
    data = imported(layout, there, metric="requests_per_s")
    assert set(data.trials["load_model"]) == {"open"} and data.trials["offered_per_s"].gt(0).all()


def test_import_takes_the_median_of_the_rates_that_the_user_gives(layout, tmp_path):
    there = tmp_path / "rates"
    there.mkdir()
    (stem,) = (p.stem for p in (BY_HAND.parent / "httperf").glob("*--r8000_n40000.json"))
    name = capture(there, "httperf", stem, whole=False)
    printed = []
    for number, rate in enumerate((100, 500, 300), 1):
        for arm in ("plain", "other"):
            shutil.copy(there / name, there / f"{arm}-{number}.txt")
            printed.append({"file": f"{arm}-{number}.txt", "treatment": arm, "block": number, "offered_per_s": rate})
    made = read_import(there, write(there, printed), ImportOptions("", baseline="plain", metric="requests_per_s"))
    assert {made.plan.study.workload_of(arm).rate_per_s for arm in ("plain", "other")} == {300}
    assert {report.offered_per_s for _, report in made.pairs} == {100, 300, 500}


@pytest.mark.parametrize(
    ("tool", "stems"),
    [
        ("wrk2", ("4.0.0--R2000_d14_latency", "4.0.0--freeze_1s")),
        ("vegeta", ("12.13.0--every_text", "12.13.0--freeze_text")),
    ],
)
def test_import_of_open_loads_needs_the_offered_rate(layout, tmp_path, tool, stems):
    there = tmp_path / "open"
    there.mkdir()
    printed = [
        {"file": capture(there, tool, stem, whole=False), "treatment": arm, "block": 1}
        for stem, arm in zip(stems, ("plain", "other"), strict=True)
    ]
    write(there, printed)
    with pytest.raises(UsageError, match=rf"line 2: .* does not say at which rate {tool} sent requests: add a column"):
        imported(layout, there)
    write(there, [row | {"offered_per_s": 2000} for row in printed])
    assert list(imported(layout, there).trials["offered_per_s"]) == [2000, 2000]


def test_import_of_outputs_of_several_tools_needs_a_tool_column(layout, tmp_path):
    there = folder(tmp_path)
    printed = rows(there)
    name = capture(there, "ab", "2.3--n20000_c50", whole=False)
    printed[0]["file"] = name
    write(there, printed)
    with pytest.raises(DataError, match=r"line 6: .* is of wrk, line 2 of the same treatment is of ab") as caught:
        imported(layout, there)
    assert caught.value.exit_code == 4
    write(there, [r | {"block": "1"} for r in (printed[0], printed[1])])
    with pytest.raises(DataError, match=r"line 3: .* is of wrk, line 2 is of ab: tools measure differently"):
        imported(layout, there)
    write(there, [r | {"block": "1", "tool": tool} for r, tool in ((printed[0], "ab"), (printed[1], "wrk"))])
    data = imported(layout, there)
    assert data.study.tools_of(data.study.treatments) == ("ab", "wrk")


def test_import_does_not_guess_the_tool_of_an_unreadable_output_if_two_tools_are_used(layout, tmp_path):
    there = folder(tmp_path)
    lines = rows(there)
    lines[0]["file"] = capture(there, "ab", "2.3--n20000_c50", whole=False)
    last = next(row for row in reversed(lines) if row["treatment"] == lines[0]["treatment"])
    (there / last["file"]).write_text("    Running 1s test\n")
    write(there, lines)
    with pytest.raises(DataError) as caught:
        imported(layout, there)
    assert f"{last['file']}: the report is indented: remove the blanks before its lines (wrk" in caught.value.message
    assert f"{last['file']} is of" not in caught.value.message


def test_import_refuses_a_named_tool_that_did_not_write_the_output(layout, tmp_path):
    with pytest.raises(DataError, match=r"line 2: wrk: access-1.txt: this is its report, not one of ab"):
        imported(layout, folder(tmp_path), tool="ab")


def test_import_of_the_same_outputs_again_writes_a_new_run(layout, tmp_path):
    there = folder(tmp_path)
    made = read_import(there, there / "conditions.csv", ImportOptions("", "plain"))
    assert find_same_import(layout, made.name, made.pairs) is None
    first = write_import(layout, made)
    assert find_same_import(layout, made.name, made.pairs) == first
    assert write_import(layout, made) != first
    assert len(layout.runs("by-hand")) == 2


def test_import_is_refused_into_a_study_that_loadbook_measured(layout, tmp_path):
    with pytest.raises(UsageError, match="there is a study 'nginx-directives' already") as caught:
        imported(layout, folder(tmp_path), name="nginx-directives")
    assert caught.value.hint == "give another name: --study NAME"


@pytest.mark.parametrize("fails_at", [0, 1, 7, 30])
def test_import_on_a_full_disk_leaves_nothing(layout, tmp_path, monkeypatch, fails_at):
    there = folder(tmp_path)
    made = read_import(there, there / "conditions.csv", ImportOptions("", "plain"))
    calls = iter(range(1000))
    real = shutil.copyfile

    def copy(source, to, **options):
        if next(calls) == fails_at:
            raise OSError(28, "No space left on device", str(to))
        return real(source, to, **options)

    monkeypatch.setattr(shutil, "copyfile", copy)
    if fails_at > 18:
        write_import(layout, made)
        return
    with pytest.raises(DataError, match="No space left on device; nothing was imported"):
        write_import(layout, made)
    assert layout.runs("by-hand") == []
    assert [p.name for p in layout.study_raw("by-hand").iterdir()] == [".lock"]


def test_import_run_ends_with_the_output_that_ended_last(layout, tmp_path):
    there = folder(tmp_path)
    printed = [row | {"started": 1_700_000_000 + 10 * n, "duration": 5} for n, row in enumerate(rows(there))]
    printed[0]["duration"] = 5000
    ends, timed = [], []
    for _ in range(2):
        made = read_import(there, write(there, printed), ImportOptions("", baseline="plain"))
        record = read_run_record(layout.run(made.name, write_import(layout, made)))
        assert record.imported is not None
        ends.append(record.ended)
        timed.append(record.imported.timed)
        printed[1]["started"] = ""
    assert (ends, timed) == ([1_700_005_000, None], [True, False])


def test_import_removes_leftovers_of_an_interrupted_import(layout, tmp_path):
    (layout.study_raw("by-hand") / ".20200101-000000.part" / "trials").mkdir(parents=True)
    data = imported(layout, folder(tmp_path))
    assert sorted(p.name for p in layout.study_raw("by-hand").iterdir()) == [".lock", data.run]


def test_import_marks_missing_trials_of_a_block_as_not_executed(layout, tmp_path):
    there = folder(tmp_path)
    write(there, rows(there)[:-1])
    with pytest.raises(UsageError, match=r"line 17: block '6' has no row of tcp_nopush on: .* say --incomplete"):
        imported(layout, there)
    data = imported(layout, there, incomplete=True)
    assert len(data.plan.trials) == 18 and len(data.trials) == 17
    assert problems(data, "note") == {("not-executed", "t0018")}


def test_import_recognises_an_aa_arm(layout, tmp_path):
    there = folder(tmp_path)
    data = imported(layout, there, aa="tcp_nopush on")
    assert data.study.treatments["tcp_nopush-on"].check == "aa"
    with pytest.raises(UsageError, match="'access log' has other factors than 'plain'"):
        imported(layout, there, aa="access log")


def test_import_accepts_semicolons_bom_and_spaces(layout, tmp_path):
    there = folder(tmp_path)
    plain = (there / "conditions.csv").read_text()
    odd = "\ufeff\r\n" + plain.replace(",", " ; ").replace("\n", "\r\n").replace("file", "File", 1) + "\r\n\r\n"
    (there / "conditions.csv").write_bytes(odd.encode())
    assert len(imported(layout, there).trials) == 18


def test_import_numbers_blocks_with_names_in_order_of_appearance(layout, tmp_path):
    there = folder(tmp_path)
    write(there, [r | {"block": "abcdef"[int(r["block"]) - 1]} for r in rows(there)])
    assert list(imported(layout, there).trials["block"]) == [int(r["block"]) for r in rows(BY_HAND)]


def test_import_treats_large_block_numbers_as_names(layout, tmp_path):
    there = folder(tmp_path)
    write(there, [r | {"block": f"{r['block']}{'9' * 30}"} for r in rows(there)])
    assert set(imported(layout, there).trials["block"]) == set(range(1, 7))


@pytest.mark.parametrize(
    ("text", "time_s"),
    [
        ("2024-03-05T14:02:11+01:00", 1709643731),
        ("2024-03-05 13:02:11Z", 1709643731),
        ("1709643731.5", 1709643731.5),
        ("20240305", 1709596800),
    ],
)
def test_import_reads_common_time_formats(layout, tmp_path, text, time_s):
    there = folder(tmp_path)
    printed = rows(there)
    printed[0]["started"] = text
    write(there, printed)
    assert imported(layout, there).trials["started"].iloc[0] == time_s


def test_import_labels_are_escaped_in_the_report(layout, tmp_path, monkeypatch):
    there = folder(tmp_path)
    hostile = '<script>x</script> & "quotes" \\ 日本'
    write(
        there, [r | {"treatment": hostile if r["treatment"] == "access log" else r["treatment"]} for r in rows(there)]
    )
    data = imported(layout, there)
    assert data.study.label("script-x-script-quotes") == hostile
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    html = effects_page("by-hand").effects().html
    assert "<script>" not in html and "&lt;script&gt;" in html


def test_import_names_are_safe_and_unique():
    assert to_valid_name("../../etc passwd") == "etc-passwd" and to_valid_name("///") == ""
    found = unique_names(["a b", "a/b", "a-b", "ü", "..", "x" * 200, "x" * 201])
    assert len(set(found.values())) == 7 and all(len(name) <= 63 for name in found.values())
    assert [found["a b"], found["a/b"], found["a-b"]] == ["a-b", "a-b-2", "a-b-3"]


def test_import_run_json_records_its_source(layout, tmp_path):
    data = imported(layout, folder(tmp_path))
    kept = json.loads(data.paths.run_json.read_text())["imported"]
    assert (kept["folder"], kept["conditions"], kept["timed"]) == ("by-hand", "conditions.csv", True)


def test_import_reads_files_with_names_that_are_not_utf_8(layout, tmp_path):
    there = folder(tmp_path).rename(tmp_path / "by-h\udcff\x07and")
    conditions = (there / "conditions.csv").rename(there / "c\udcff.csv")
    run = write_import(layout, made := read_import(there, conditions, ImportOptions("", "plain")))
    assert made.name == "by-h-and"
    kept = json.loads(layout.run(made.name, run).run_json.read_text())["imported"]
    assert (kept["folder"], kept["conditions"]) == ("by-h??and", "c?.csv")


def test_import_reads_a_jmeter_results_file_alone_or_in_a_folder(layout, tmp_path):
    there = tmp_path / "jmeter"
    (there / "run").mkdir(parents=True)
    stamp, head = 1_700_000_000_000, "timeStamp,elapsed,label,responseCode,success,bytes,Latency,Connect\n"
    for path, elapsed in ((there / "a.jtl", 5), (there / "run" / "results.jtl", 7)):
        path.write_text(head + "".join(f"{stamp + 100 * i},{elapsed},home,200,true,300,2,1\n" for i in range(50)))
    (there / "run" / "stdout").write_text("")
    write(there, [{"file": "a.jtl", "treatment": "plain", "block": 1}, {"file": "run", "treatment": "b", "block": 1}])
    data = imported(layout, there)
    record = trial_record.read_trial(data.paths.trial("t0001"))
    assert record.drivers[0].files == {"a.jtl": "driver-a.jtl"} and record.files["stdout-driver"].size == 0
    assert set(data.trials["tool"]) == {"jmeter"} and (data.values("ok", "count")["value"] == 50).all()


HEAD = "timeStamp,elapsed,label,responseCode,success,bytes,Latency,Connect\n"
FIRST_MS = 1_700_000_000_000


def jtl_pair(root, **columns):
    """Return a folder with a JTL of 50 requests in 5 s for "plain", and a slower one for "b" that ran before it."""
    there = root / "jmeter"
    there.mkdir()
    printed = []
    for name, began_ms, elapsed in (("plain", FIRST_MS + 60_000, 5), ("b", FIRST_MS, 7)):
        lines = (f"{began_ms + 100 * i},{elapsed},home,200,true,300,2,1\n" for i in range(50))
        (there / f"{name}.jtl").write_text(HEAD + "".join(lines))
        printed.append({"file": f"{name}.jtl", "treatment": name, "block": 1} | columns)
    write(there, printed)
    return there


def test_order_of_imported_outputs_is_by_their_own_times_if_the_rows_give_none(layout, tmp_path):
    data = imported(layout, jtl_pair(tmp_path))
    assert list(data.trials["treatment"]) == ["b", "plain"]
    assert list(data.trials["started"]) == [FIRST_MS / 1000, FIRST_MS / 1000 + 60]
    source = data.run_record.imported
    assert (source.timed, source.times_given) == (True, False)
    assert "by the times in the outputs" in dict(provenance_pairs(data))["run"]


def test_times_in_rows_are_preferred_to_those_in_outputs(layout, tmp_path):
    there = jtl_pair(tmp_path)
    write(there, [row | {"started": 1_700_000_000 + k} for k, row in enumerate(rows(there))])
    data = imported(layout, there)
    assert list(data.trials["treatment"]) == ["plain", "b"]
    assert data.run_record.imported.times_given
    assert "by conditions.csv" in dict(provenance_pairs(data))["run"]


def test_page_of_one_pair_opens_with_table_and_distribution_instead_of_an_empty_figure(layout, tmp_path, monkeypatch):
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    page = effects_page(imported(layout, jtl_pair(tmp_path)).study.name)
    displayed = BeautifulSoup(page.effects().html, "html.parser").find_all(["table", "img"])
    assert [part.name for part in displayed] == ["table", "img"]
    assert str(displayed[1]["alt"]).startswith("Latency by percentile.")
    assert "put together for the picture" not in page.latency().html
    doubts = page.doubts().text
    assert doubts.count("not checked:") == 0 and "rules could not be checked: " in doubts


@pytest.mark.parametrize(
    ("tool", "stem", "per_s"),
    [("k6", "1.8.1--text", 2004.10841), ("vegeta", "12.13.0--every_text", 100.47)],
)
def test_import_of_a_text_has_the_rate_that_it_prints(layout, tmp_path, tool, stem, per_s):
    there = tmp_path / "texts"
    there.mkdir()
    name = capture(there, tool, stem, whole=False)
    shutil.copy(there / name, there / "other.txt")
    arms = {"plain": name, "other": "other.txt"}
    offered = {"offered_per_s": 100} if tool == "vegeta" else {}
    write(there, [{"file": file, "treatment": arm, "block": 1} | offered for arm, file in arms.items()])
    data = imported(layout, there)
    assert set(data.trials["tool"]) == {tool}
    assert data.values("requests_per_s")["value"].tolist() == pytest.approx([per_s] * 2, rel=1e-9)


def test_import_of_values_that_are_rounded_too_much_for_their_intervals_is_doubtful(layout, tmp_path):
    data = imported(layout, folder(tmp_path))
    analysis = analyse(data, metric="latency", statistic="mean")
    assert rounding_doubts(data, analysis) == []
    is_mean = (data.measurements["metric"] == "latency") & (data.measurements["statistic"] == "mean")
    coarse = data.measurements["resolution"].mask(is_mean, 1e-3)  # as if 1 ms were printed
    rounded = replace(data, measurements=data.measurements.assign(resolution=coarse))
    found = rounding_doubts(rounded, analysis)
    assert [doubt.title for doubt in found] == [f"Effect of {row.label}" for row in analysis.rows if row.verdict]
    assert all(doubt.level == "doubt" and "rounded to steps of 10" in doubt.text for doubt in found) and found
    assert rounding_doubts(rounded, analyse(rounded)) == []  # of rates
    own = replace(rounded, run_record=data.run_record.model_copy(update={"imported": None}))
    assert rounding_doubts(own, analysis) == []


def test_import_reads_the_reports_of_one_log_by_their_numbers(layout, tmp_path):
    there = folder(tmp_path)
    files = sorted({row["file"] for row in rows(there)})
    (there / "all.log").write_bytes(b"".join((there / name).read_bytes() for name in files))
    apart = imported(layout, there)
    numbered = [row | {"file": f"all.log#{files.index(row['file']) + 1}"} for row in rows(there)]
    write(there, numbered)
    for name in files:
        (there / name).unlink()
    together = imported(layout, there)
    columns = ["treatment", "block", "value"]
    assert together.values("ok_per_s")[columns].equals(apart.values("ok_per_s")[columns])
    trial = trial_record.read_trial(together.paths.trial("t0001"))
    assert re.fullmatch(r"all\.log#\d+", trial.drivers[0].source)
    write(there, [numbered[0] | {"file": "all.log#99"}, *numbered[1:], numbered[1]])
    with pytest.raises(UsageError, match=r"all\.log has \d+ reports, none with the number 99") as caught:
        imported(layout, there)
    assert f"{numbered[1]['file']} is that of line 3" in caught.value.message


def test_blocks_added_to_those_of_an_earlier_import_make_the_run_exploratory(layout, tmp_path):
    there = folder(tmp_path)
    every = rows(there)
    last = max(int(row["block"]) for row in every)
    write(there, [row for row in every if int(row["block"]) < last])
    first = imported(layout, there)
    assert first.plan.added == 0 and "EXPLORATORY" not in scope_text(first)
    write(there, every)
    more = imported(layout, there)
    assert more.plan.added == 1
    assert "EXPLORATORY: 1 block differs from an earlier import" in scope_text(more)
    assert {row.verdict.comparison.added_blocks for row in analyse(more).rows if row.verdict} == {1}
    write(there, [row | {"block": str(int(row["block"]) + 10)} for row in every])
    assert changed_blocks(layout, there) == 1, "outputs of an exploratory import stay exploratory"
    write(there, [row for row in every if int(row["block"]) == last])
    assert changed_blocks(layout, there) == 1


def test_outputs_that_are_swapped_changed_or_left_out_make_the_run_exploratory(layout, tmp_path):
    there = folder(tmp_path)
    every, blocks = rows(there), {row["block"] for row in rows(there)}
    imported(layout, there)
    other = next(row["treatment"] for row in every if row["treatment"] != "plain")
    swap = {"plain": other, other: "plain"}
    write(there, [row | {"treatment": swap.get(row["treatment"], row["treatment"])} for row in every])
    assert changed_blocks(layout, there) == len(blocks)
    write(there, [row for row in every if row["block"] != every[-1]["block"]])
    assert changed_blocks(layout, there) == 1
    write(there, every)
    assert changed_blocks(layout, there) == 0
    output = there / every[0]["file"]
    output.write_bytes(output.read_bytes() + b"\n")
    assert changed_blocks(layout, there) == 1


def test_outputs_that_did_not_count_may_be_replaced(layout, tmp_path):
    there = folder(tmp_path)
    output = there / rows(there)[0]["file"]
    good = output.read_bytes()
    output.write_bytes(b"This is ApacheBench, killed\n")
    first = imported(layout, there)
    assert not first.trials["valid"].all()
    output.write_bytes(good)
    assert changed_blocks(layout, there) == 0


def test_new_outputs_alone_are_no_exploration(layout, tmp_path):
    there = folder(tmp_path)
    every = rows(there)
    write(there, [row for row in every if int(row["block"]) <= 3])
    imported(layout, there)
    write(there, [row for row in every if int(row["block"]) > 3])
    assert changed_blocks(layout, there) == 0


def changed_blocks(layout, there):
    """Return the number of blocks that an import of the folder would call added or changed."""
    made = read_import(there, there / "conditions.csv", ImportOptions("", baseline="plain"))
    return added_blocks(layout, made.name, made.pairs)


def scope_text(data):
    return " ".join(scope_parts(data, 0.02))
