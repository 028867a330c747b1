"""What is wrong with imported results is named all at once, each with its line; then nothing was written."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command_line import exit_code
from effort import examples
from import_files import BY_HAND, FIXTURES, folder, project, rows, write
from loadbook.core.errors import LoadbookError, UsageError
from loadbook.imported.outputs import read_conditions
from loadbook.imported.study import ImportOptions, read_import


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Call `loadbook import` on the folder `there`; returns exit code, stdout and stderr."""
    layout = project(tmp_path)
    there = folder(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))

    def run(*options, conditions="conditions.csv"):
        words = ["import", str(there), "--conditions", str(there / conditions), "--baseline", "plain", *options]
        code = exit_code(monkeypatch, *words)
        out, err = capsys.readouterr()
        assert code == 0 or "was imported" in err or not layout.study_raw("by-hand").exists()
        return code, out, err

    run.there, run.layout = there, layout  # type: ignore[attr-defined]
    return run


def changed(there: Path, number: int, **cells: str) -> None:
    """Change cells of one row (1: the first) of the file of conditions."""
    printed = rows(there)
    printed[number - 1] |= cells
    columns = dict.fromkeys(key for row in printed for key in row)
    write(there, [dict.fromkeys(columns, "") | row for row in printed])


def test_import_reports_all_problems_at_once(call):
    changed(call.there, 1, file="acess-1.txt")
    changed(call.there, 3, file="../by-hand/plain-1.txt")
    changed(call.there, 5, block="")
    changed(call.there, 6, started="noon")
    changed(call.there, 9, treatment="plain", factor_access_log="off")
    changed(call.there, 12, factor_access_log="on")
    code, out, err = call("--metric", "latency_intended")
    assert (code, out) == (2, "")
    printed = err.splitlines()
    assert printed[0].endswith("conditions.csv: 7 problems; nothing was imported")
    for line, words in (
        (1, "no report has the metric latency_intended"),
        (2, "line 2: no file 'acess-1.txt' in .*; did you mean 'access-1.txt'"),
        (3, "line 4: '../by-hand/plain-1.txt' leads out of the folder"),
        (4, "line 6: no block"),
        (5, "line 7: started: 'noon' is no time such as 2024-03-05 14:02:11"),
        (6, "line 10: a second row of treatment 'plain' in block '3', after line 9"),
        (7, "line 13: 'tcp_nopush on' has access_log = 'on', in line 4 it has 'off'"),
    ):
        assert re.search(words, printed[line]), printed[line]
    assert printed[-1] == "  next: correct these, then give the same command again"


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"file": "/etc/passwd"}, "'/etc/passwd' leads out of the folder"),
        ({"file": "a/../../x"}, "leads out of the folder"),
        ({"file": "plain-1.txt/x"}, "no file 'plain-1.txt/x'"),
        ({"file": "sub\\plain-1.txt"}, "separate folders by /"),
        ({"file": "."}, "is no file or folder below"),
        ({"file": "plain-2.txt"}, "line 7: plain-2.txt is that of line 2"),
        ({"file": "x" * 5000}, "no file"),
        ({"tool": "nosuchtool"}, "no tool 'nosuchtool'; tools: ab, artillery, autocannon"),
        ({"host": "a b"}, "host 'a b': use letters"),
        ({"host": "../x"}, "host '../x': use letters"),
        ({"exit_code": "-1"}, "no file '-1'"),
        ({"exit_code": "plain-1.txt"}, "is no whole number"),
        ({"stderr": "none.txt"}, "no file 'none.txt'"),
        ({"command": "none.sh"}, "no file 'none.sh'"),
        ({"duration": "10s"}, "duration: '10s' is not a positive number"),
        ({"duration": "nan"}, "duration: 'nan' is not a positive number"),
        ({"offered_per_s": "0"}, "offered_per_s: '0' is not a positive number"),
        ({"started": "-5"}, "started: '-5' is no time"),
        ({"started": "1700000000000"}, "started: '1700000000000' is no time"),
        ({"duration": "1e300"}, "duration: '1e300' is not a positive number"),
        ({"factor_access_log": "x" * 1001}, "the study made from .*conditions.csv: 1 problem|had|in line"),
        ({"treatment": "a\x07b"}, "treatment holds control characters"),
        ({"factor_access_log": ""}, "no level of access_log"),
        ({"factor_Big": "1"}, "factor 'big'|no level of big"),
        ({"tols": "wrk"}, "line 1: unknown column 'tols'; did you mean 'tool'"),
    ],
    ids=str,
)  # fmt: skip
def test_import_names_the_line_of_an_invalid_cell(call, cells, says):
    changed(call.there, 1, **cells)
    code, out, err = call()
    assert (code, out) == (2, "") and "Traceback" not in err
    assert re.search(says, err), err


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is empty; a header with file, treatment, block and a row for each raw output are needed"),
        (b"\xef\xbb\xbf\n \n", "it is empty"),
        (b"file,treatment,block\n", "it holds a header and no rows"),
        (b"file,block\na,1\n", "line 1: there is no column 'treatment'"),
        (b"plain-1.txt,plain,1\n", "line 1: there is no column 'file'"),
        (b"file,treatment,block,file\n", "line 1: 2 columns are called 'file'"),
        (b"file,treatment,block\nplain-1.txt,plain\n", "line 2: 2 cells where the header has 3"),
        ("file,treatment,block\nplain,größe,1\n".encode("latin-1"), "conditions.csv:2: the byte 0xf6 is not UTF-8"),
        ("file,treatment,block\n".encode("utf-16"), "is not UTF-8 text"),
        (b"file,treatment,block\nplain\0,a,1\n", "is not UTF-8 text"),
        (b'file,treatment,block\n"plain-1.txt,plain,1\n', "conditions.csv:2: not CSV"),
        (b"file,treatment,block\nplain-1.txt,plain,1\n", "there is only the treatment 'plain'"),
        (b"file,treatment,block\nplain-1.txt,a,1\naccess-1.txt,b,1\n", "no treatment 'plain'; say by --baseline"),
    ],
    ids=range(13),
)  # fmt: skip
def test_import_names_the_mistake_in_an_invalid_conditions_file(call, data, says):
    (call.there / "conditions.csv").write_bytes(data)
    code, out, err = call()
    assert (code, out) == (2, "") and says in err, err


def test_import_line_numbers_count_lines_inside_quotes(call):
    text = 'file,treatment,block\n"plain-1.txt","plain\n",1\n\naccess-1.txt,access,one,two\n'
    (call.there / "conditions.csv").write_text(text)
    assert "line 5: 4 cells where the header has 3" in call()[2]


def test_import_follows_no_links_and_reads_no_devices(call):
    (call.there / "plain-1.txt").unlink()
    (call.there / "plain-1.txt").symlink_to(BY_HAND / "plain-1.txt")
    (call.there / "in").symlink_to(call.there)
    os.mkfifo(call.there / "pipe")
    (call.there / "run").mkdir()
    (call.there / "run" / "stdout").symlink_to("/etc/passwd")
    for number, file in ((1, "in/access-1.txt"), (3, "pipe"), (4, "run")):
        changed(call.there, number, file=file)
    code, _, err = call()
    assert code == 2
    assert "line 2: 'in/access-1.txt': in is a symbolic link" in err
    assert "line 3: 'plain-1.txt': plain-1.txt is a symbolic link" in err
    assert "line 4: 'pipe' is no file or folder below" in err
    assert "line 5: 'run/stdout': stdout is a symbolic link" in err


@pytest.mark.parametrize(
    ("capture", "words"),
    [
        ("vegeta/12.13.0--hist.stdout", ": only a distribution of times: read `vegeta encode -to csv`"),
        ("wrk/4.1.0--usage_noargs.stdout", ": the tool printed its usage"),
        ("wrk/4.1.0--sigkill_after_head.stdout", ": report is not complete"),
        ("ab/2.3--noargs.stdout", " is empty: the tool was killed"),
    ],
)
def test_import_says_why_a_tools_output_cannot_be_read(call, capture, words):
    for path in call.there.glob("*.txt"):
        path.write_bytes((FIXTURES / capture).read_bytes())
    code, out, err = call()
    assert (code, out) == (4, "")
    assert f"line 2: access-1.txt{words}" in err
    assert "no report of" not in err
    if "is empty" not in words:
        assert capture.split("/")[0] in re.findall(r"\(([a-z0-9, ]+)\)", err.splitlines()[1])[0].split(", ")


def test_import_says_that_a_log_has_several_reports(call):
    data = (FIXTURES / "ab" / "2.3--n20000_c50.stdout").read_bytes()
    for path in call.there.glob("*.txt"):
        path.write_bytes(data * 2)
    assert re.search(
        r"line 2: access-1\.txt:\d+: a second line 'Server Port: .*two reports in one: name them FILE#1", call()[2]
    )


def test_import_refuses_file_names_with_unprintable_bytes(call):
    (call.there / "run").mkdir()
    (call.there / "run" / "stdout").write_bytes((call.there / "plain-1.txt").read_bytes())
    Path(os.fsdecode(os.fsencode(call.there / "run") + b"/x\xff")).touch()
    changed(call.there, 2, file="run")
    code, _, err = call()
    assert code == 2 and "line 3: 'run' holds a file with the name 'x\\udcff': rename it" in err
    Path(os.fsdecode(os.fsencode(call.there / "run") + b"/x\xff")).unlink()


def test_import_of_wrong_outputs_exits_with_4(call):
    for path in call.there.glob("*.txt"):
        path.write_text("hello\n")
    code, out, err = call()
    assert (code, out) == (4, "")
    assert (
        "line 2: access-1.txt is no report of any tool (ab, artillery, autocannon, bombardier, fortio, gatling" in err
    )
    (call.there / "run").mkdir()
    (call.there / "run" / "output.txt").write_text("")
    changed(call.there, 1, file="run")
    assert "line 2: run has no file named stdout; it holds output.txt" in call()[2]


def test_import_refuses_contradictory_options(call):
    for options, says in (
        (("--metric", "speed"), "no metric 'speed'"),
        (("--margin", "2"), "--margin 2 is not between 0 and 1"),
        (("--question", "?"), "--question must have 3 to 90 printable characters"),
        (("--question", "what\udcff is it?"), "--question must have 3 to 90 printable characters"),
        (("--tool", "nosuchtool"), "no tool 'nosuchtool'"),
        (("--baseline", "none"), "no treatment 'none'; say by --baseline"),
        (("--aa", "plain"), "--aa 'plain' is no treatment beside the baseline"),
    ):
        code, out, err = call(*options)
        assert (code, out) == (2, "") and says in err, err
    assert call(conditions="none.csv")[0] == 2


def test_import_dry_run_writes_nothing(call):
    code, out, err = call("--dry-run")
    assert (code, err) == (0, "")
    assert "outputs   18 of wrk: 6 blocks of access log, plain, tcp_nopush on" in out
    assert "blocks    6 complete blocks; a verdict needs at least 5\n" in out
    assert "t0002  plain-1.txt       plain              1  123,909 /s" in out
    assert out.endswith("nothing was written (--dry-run)\n")
    assert not (call.layout.root / "data").exists()


def test_import_dry_run_names_missing_blocks(call):
    lines = rows(call.there)
    write(call.there, [row for row in lines if row["block"] in ("1", "2", "3")])
    (call.there / "plain-2.txt").write_text("wrk: unable to connect\n")
    _, out, _ = call("--dry-run")
    expected = "2 complete blocks; a verdict needs at least 5: without more the report gives no verdict"
    assert f"blocks    {expected}\n" in out


def test_repeated_import_notes_the_earlier_run_and_writes_a_new_one(call):
    code, out, err = call()
    assert (code, err) == (0, "") and "trials    18 of 18 count" in out and "\nrun 2" in out
    first = call.layout.runs("by-hand")[0]
    code, out, err = call()
    assert (code, err) == (0, f"note: the same was imported before, as run {first}\n") and "\nnew run 2" in out


def test_import_reports_outputs_without_values(call):
    (call.there / "plain-1.txt").write_text("wrk: unable to connect\n")
    code, out, err = call()
    assert code == 0 and "trials    17 of 18 count (1 trial: report unreadable)" in out
    assert err.startswith("note: plain-1.txt: no numbers: wrk: stdout")


def test_import_without_valid_trials_is_stored_and_exits_with_4(call):
    for path in call.there.glob("*.txt"):
        path.write_text("killed\n")
    code, _, err = call("--tool", "wrk")
    assert code == 4 and "was imported, but none of its trials counts: 18 trials: report unreadable" in err


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_import_reads_or_refuses_a_conditions_file_of_arbitrary_bytes(tmp_path, data):
    path = tmp_path / "c.csv"
    path.write_bytes(b"file,treatment,block,started,factor_x\n" + data)
    try:
        printed, wrong = read_conditions(path)
    except UsageError as error:
        assert str(path) in error.message
        return
    assert printed or wrong
    assert all(c.file and c.treatment and c.block for c in printed)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_import_accepts_arbitrary_cells_or_refuses_them_with_the_line_number(tmp_path, data):
    there = tmp_path / "fuzzed"
    if not there.exists():
        shutil.copytree(BY_HAND, there)
    printed = rows(BY_HAND)
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.sampled_from(printed))
        row[data.draw(st.sampled_from(sorted(row)))] = (
            data.draw(
                st.one_of(
                    st.text(max_size=20), st.sampled_from(["..", "1", "", "plain", "plain-1.txt", "a/b", "1e400", "\t"])
                )
            )
            .encode("utf-8", "replace")
            .decode()
        )
    path = write(there, printed)
    try:
        made = read_import(there, path, ImportOptions("fuzzed", "plain"))
    except LoadbookError as error:
        assert error.exit_code in (2, 4) and "conditions.csv" in error.message
        return
    assert len(made.pairs) == 18 and len({p.trial for p, _ in made.pairs}) == 18
