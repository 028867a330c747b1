"""`loadbook compare` as a user and the checks of issue 4 see it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from compared_results import EFFECTS, loadbook, write
from loadbook.cli.compare import NARROWEST, read_trials
from trial_frames import noisy


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return write(tmp_path / "a.csv", noisy(10, EFFECTS, sd=0.005))


def test_compare_json_has_the_documented_keys(csv: Path) -> None:
    done = loadbook("compare", csv, "--by", "treatment", "--block", "block", "--metric", "ok_per_s", "--baseline",
                    "base", "--margin", "0.02", "--json")  # fmt: skip
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(document) == ["baseline", "metric", "margin", "comparisons"]
    assert [c["treatment"] for c in document["comparisons"]] == ["fast", "slow", "even"]
    keys = ["treatment", "blocks", "method", "effect", "ci95", "ci90", "p", "p_adjusted", "verdict", "more_blocks"]
    assert all(list(c) == [*keys, "sentence", "flags"] for c in document["comparisons"])
    assert [c["verdict"] for c in document["comparisons"]] == ["better", "worse", "equivalent"]
    fast = document["comparisons"][0]
    assert fast["ci95"][0] < fast["ci90"][0] < fast["effect"] < fast["ci90"][1] < fast["ci95"][1]
    assert (fast["p"], fast["method"], fast["more_blocks"]) == (2 / 1024, "blocked-rank", None)
    assert fast["sentence"].startswith("faster by ")


def test_compare_states_how_many_blocks_an_undecided_comparison_needs(tmp_path: Path) -> None:
    path = write(tmp_path / "b.csv", noisy(10, {"base": 0, "x": 0.01}, sd=0.015, seed=4))
    found = json.loads(loadbook("compare", path, "--baseline", "base", "--margin", 0.02, "--json").stdout)
    (only,) = found["comparisons"]
    assert (only["verdict"], only["p_adjusted"]) == ("undecided", None)
    assert only["more_blocks"][0] <= only["more_blocks"][1]
    assert f"({only['more_blocks'][0]}..{only['more_blocks'][1]})" in only["sentence"]


def test_compare_without_a_margin_never_says_equivalent(csv: Path) -> None:
    found = json.loads(loadbook("compare", csv, "--baseline", "base", "--json").stdout)
    assert found["margin"] is None
    assert found["comparisons"][2]["verdict"] == "undecided"


def test_compare_prints_table_and_sentences(csv: Path) -> None:
    done = loadbook("compare", csv, "--baseline", "base", "--margin", 0.02)
    assert done.returncode == 0
    assert "ok_per_s against base" in done.stdout
    assert "slow: slower by" in done.stdout


@pytest.mark.parametrize("texts", [("1.014", "981.000"), ("1.5", "981"), ("439.454", "441"), ("1.014", "2")])
def test_decimals_are_no_thousands(texts: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    rows = (f"{name},{block},{text}\n" for block in (1, 2) for name, text in zip("ab", texts, strict=True))
    path.write_text("treatment,block,ok_per_s\n" + "".join(rows))
    assert read_trials(path, treatment="treatment", block="block", value="ok_per_s", baseline="a").value.tolist() == [
        *map(float, texts * 2)
    ]


def test_compare_recognises_metrics_where_lower_is_better(tmp_path: Path) -> None:
    latency = write(tmp_path / "l.csv", noisy(10, EFFECTS, sd=0.005), "latency")
    unknown = write(tmp_path / "u.csv", noisy(10, EFFECTS, sd=0.005), "joules")

    def fast(path: Path, metric: str, *more: str) -> tuple[str, str]:
        done = loadbook("compare", path, "--baseline", "base", "--metric", metric, "--json", *more)
        first = json.loads(done.stdout)["comparisons"][0]
        return first["verdict"], first["sentence"].split()[0]

    assert fast(latency, "latency") == ("worse", "longer")
    tail = write(tmp_path / "t.csv", noisy(10, EFFECTS, sd=0.005), "Latency p99 (ms)")
    assert fast(tail, "Latency p99 (ms)") == ("worse", "longer")
    failed = write(tmp_path / "e.csv", noisy(10, EFFECTS, sd=0.005), "socket_errors")
    assert fast(failed, "socket_errors") == ("worse", "more")
    assert fast(unknown, "joules", "--higher-is-better") == ("better", "higher")
    assert fast(unknown, "joules", "--lower-is-better") == ("worse", "higher")


def test_compare_excludes_blocks_with_zero_or_missing_values(tmp_path: Path) -> None:
    values = noisy(10, {"base": 0, "x": 0.06}, sd=0.005)
    values.loc[0, "value"], values.loc[15, "value"] = 0.0, float("nan")
    done = loadbook("compare", write(tmp_path / "z.csv", values), "--baseline", "base", "--margin", 0.02, "--json")
    (only,) = json.loads(done.stdout)["comparisons"]
    assert (only["blocks"], only["verdict"]) == (8, "better")
    assert only["flags"] == [
        "in 2 blocks a trial of the treatment or of the baseline does not count (not valid, or its value is missing or "
        "not above zero); those blocks are left out"
    ]


@pytest.mark.parametrize("words", [("1", "0"), ("yes", "No"), ("TRUE", "false")])
def test_compare_leaves_out_trials_that_the_file_calls_not_valid(tmp_path: Path, words: tuple[str, str]) -> None:
    values = noisy(10, {"base": 0, "x": 0.06}, sd=0.005)
    values["valid"] = [words[k in (0, 15)] for k in range(len(values))]
    done = loadbook("compare", write(tmp_path / "v.csv", values), "--baseline", "base", "--json")
    assert json.loads(done.stdout)["comparisons"][0]["blocks"] == 8


@pytest.mark.parametrize("missing", ["", "NA", "n/a", "NaN", "-"])
def test_compare_reads_what_tools_write_for_a_missing_value(tmp_path: Path, missing: str) -> None:
    values = noisy(10, {"base": 0, "x": 0.06}, sd=0.005).astype({"value": object})
    values.loc[3, "value"] = missing
    done = loadbook("compare", write(tmp_path / "m.csv", values), "--baseline", "base", "--json")
    assert json.loads(done.stdout)["comparisons"][0]["blocks"] == 9


def test_compare_prints_extreme_ratios_in_few_digits(tmp_path: Path) -> None:
    values = noisy(10, {"base": 0, "x": 500}, sd=0.5)
    (only,) = json.loads(loadbook("compare", write(tmp_path / "h.csv", values), "--baseline", "base", "--json").stdout)[
        "comparisons"
    ]
    assert only["sentence"].startswith("faster by ")
    assert len(only["sentence"]) < 100


def test_compare_of_four_blocks_has_an_invalid_verdict_in_valid_json(tmp_path: Path) -> None:
    done = loadbook("compare", write(tmp_path / "f.csv", noisy(4, EFFECTS)), "--baseline", "base", "--json")
    first = json.loads(done.stdout)["comparisons"][0]
    assert (first["verdict"], first["method"], first["p"], first["ci95"]) == ("invalid", None, None, None)
    assert first["sentence"] == "invalid: only 4 complete blocks, 5 are needed"


HEADER = "treatment,block,ok_per_s\n"
BAD = {
    "no file": (None, 2, "No such file"),
    "empty": ("", 4, "is empty"),
    "header only": (HEADER, 4, "no trials"),
    "no column": ("arm,block,ok_per_s\na,1,5\n", 2, "no column 'treatment'"),
    "text": (HEADER + "a,1,5\nb,1,fast\n", 4, ":3: column 'ok_per_s' holds 'fast'"),
    "underscore": (HEADER + "a,1,5_000\nb,1,6\n", 4, "'5_000', which is not a number"),
    "unit": (HEADER + "a,1,5k\nb,1,6\n", 4, "'5k', which is not a number"),
    "comma before decimals or thousands": (
        "treatment;block;ok_per_s\na;1;39,667\nb;1;981\n",
        4,
        ":2: column 'ok_per_s' holds '39,667', which is not a number: its comma may stand before decimals or thousands",
    ),
    "commas and points": (
        "treatment;block;ok_per_s\na;1;981,5\nb;1;1.014\n",
        4,
        ":2: column 'ok_per_s' holds '981,5', which is not a number: its comma may stand before decimals or thousands",
    ),
    "points before thousands": (HEADER + "a,1,1.014.500\nb,1,981\n", 4, "write 1014500, without points before"),
    "thousands with a point": (
        HEADER + "a,1,1.014\nb,1,981\na,2,1.012\nb,2,983\n",
        4,
        ":2: column 'ok_per_s' holds '1.014', and whole numbers such as '981': is it 1014, or below 2?",
    ),
    "twice": (HEADER + "a,1,5\nb,1,6\nb,1,7\n", 4, ":4: a second row of 'b' in block '1'"),
    "twice, once not valid": (
        "treatment,block,ok_per_s,valid\na,1,5,1\nb,1,6,1\nb,1,7,0\n",
        4,
        ":4: a second row of 'b' in block '1'",
    ),
    "ragged": (HEADER + "a,1\n", 4, ":2: 2 cells where the header has 3"),
    "no baseline": (HEADER + "b,1,5\nc,1,6\n", 2, "no treatment 'a' in column 'treatment'"),
    "alone": (HEADER + "a,1,5\na,2,6\n", 4, "nothing to compare it with"),
    "no block": (HEADER + "a,,5\nb,1,6\n", 4, ":2: no block"),
    "same column twice": ("treatment,block,ok_per_s,block\na,1,5,1\n", 4, "has 2 columns 'block'"),
    "quotes": (HEADER + '"a,1,5\n', 4, "not CSV"),
    "valid": ("treatment,block,ok_per_s,valid\na,1,5,maybe\n", 4, "holds 'maybe'"),
}


@pytest.mark.parametrize("case", BAD)
def test_compare_refuses_bad_input_with_a_message(case: str, tmp_path: Path) -> None:
    text, code, printed = BAD[case]
    path = tmp_path / "bad.csv"
    if text is not None:
        path.write_text(text)
    done = loadbook("compare", path, "--baseline", "a")
    assert (done.returncode, done.stdout) == (code, "")
    assert printed in done.stderr
    assert "Traceback" not in done.stderr


def test_compare_refuses_binary_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00a")
    assert loadbook("compare", tmp_path / "x.csv", "--baseline", "a").returncode == 4
    assert loadbook("compare", tmp_path, "--baseline", "a").returncode == 2


@pytest.mark.parametrize("margin", ["0", "1", "-0.02", "2"])
def test_compare_refuses_an_invalid_margin(csv: Path, margin: str) -> None:
    done = loadbook("compare", csv, "--baseline", "base", "--margin", margin)
    assert done.returncode == 2
    assert "is not between 0 and 1" in done.stderr


@pytest.mark.parametrize("columns", [60, 80])
def test_compare_table_is_not_truncated_on_a_terminal(columns: int, tmp_path: Path, monkeypatch) -> None:
    name = "worker_processes auto; worker_cpu_affinity auto"
    values = noisy(12, {"base": 0, name: -0.06, "größer 日本": 0}, sd=0.005)
    for variable, value in {"FORCE_COLOR": "1", "COLUMNS": str(columns), "TERM": "xterm"}.items():
        monkeypatch.setenv(variable, value)
    done = loadbook("compare", write(tmp_path / "n.csv", values), "--baseline", "base", "--margin", 0.02)
    table = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).split("\n\n")[0]
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= max(columns, NARROWEST)
    assert "adjusted" in table.splitlines()[1]


def test_compare_prints_treatment_names_unchanged(tmp_path: Path) -> None:
    values = noisy(8, {"base": 0, "[red]$x<b>": 0.1, "日本": 0}, sd=0.005)
    done = loadbook("compare", write(tmp_path / "n.csv", values), "--baseline", "base", "--margin", 0.02)
    assert "[red]$x<b>: faster by" in done.stdout
    assert "日本" in done.stdout


NO_DIRECTION = (
    "Average", "Median", "90% Line", "p(95)", "99%", "Std. Dev.", "Max", "avg", "seconds", "ms", "RT", "jitter", "wait",
    "fail %", "non-2xx", "dropped", "cpu", "memory", "cost", "Antwortzeit", "Dauer", "joules", "ms per request",
    "dropped/s", "retries_per_s", "rejected per second", "loss rate", "5xx/s", "slow requests/s", "CPU seconds per s",
)  # fmt: skip


@pytest.mark.parametrize("metric", [*NO_DIRECTION, "duration_"])
def test_compare_asks_for_a_direction_that_the_name_does_not_tell(tmp_path: Path, metric: str) -> None:
    done = loadbook("compare", write(tmp_path / "a.csv", noisy(6, EFFECTS, sd=0.005), metric), "--baseline", "base",
                    "--metric", metric)  # fmt: skip
    if metric == "duration_":
        assert done.returncode == 0 and "longer" in done.stdout
        return
    assert done.returncode == 2 and done.stdout == "" and "--lower-is-better" in done.stderr


@pytest.mark.parametrize("metric", ["Requests/sec", "throughput", "answers_per_s", "rps", "MB/s"])
def test_compare_takes_a_higher_rate_for_better(tmp_path: Path, metric: str) -> None:
    table = write(tmp_path / "r.csv", noisy(10, EFFECTS, sd=0.005), metric)
    done = loadbook("compare", table, "--baseline", "base", "--metric", metric, "--json")
    assert json.loads(done.stdout)["comparisons"][0]["verdict"] == "better"


@pytest.mark.parametrize("block", ["Average", "avg.", "Mean (5 runs)", "Ø", "Mittelwert", "total:", "mean of 1-5"])
def test_compare_refuses_a_row_of_averages_as_a_block(tmp_path: Path, block: str) -> None:
    table = tmp_path / "m.csv"
    table.write_text(HEADER + f"a,1,5\nb,1,6\na,{block},5\nb,{block},6\n", encoding="utf-8")
    done = loadbook("compare", table, "--baseline", "a")
    assert done.returncode == 4 and f":4: '{block}' is no block, but sums up others" in done.stderr
    assert "next: leave this row out" in done.stderr


@pytest.mark.parametrize("block", ["max-1", "total load 3", "minute 4", "monday", "mean 2"])
def test_name_of_a_block_that_begins_as_a_summary_is_one(tmp_path: Path, block: str) -> None:
    table = tmp_path / "m.csv"
    table.write_text(HEADER + f"a,{block},5\nb,{block},6\n")
    assert len(read_trials(table, treatment="treatment", block="block", value="ok_per_s", baseline="a")) == 2


@pytest.mark.parametrize(
    ("first", "second", "numbers"),
    [("1015,5", "986", [1015.5, 986]), ("1.015,50", "986,25", [1015.5, 986.25]), ("0,123", "NA", [0.123, math.nan])],
)
@pytest.mark.parametrize("row", ["{};{};{}\n", '{},{},"{}"\n'], ids=["semicolons", "quotes"])
def test_decimal_commas_are_read(tmp_path: Path, first: str, second: str, numbers: list[float], row: str) -> None:
    table = tmp_path / "d.csv"
    cells = (("treatment", "block", "ok_per_s"), ("a", 1, first), ("b", 1, second))
    table.write_text("".join(row.format(*line) for line in cells))
    read = read_trials(table, treatment="treatment", block="block", value="ok_per_s", baseline="a")
    assert read.value.tolist() == pytest.approx(numbers, nan_ok=True)
