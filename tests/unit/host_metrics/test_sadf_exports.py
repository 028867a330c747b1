"""Exports of sysstat's sadf as locales and options make them: the same rows, or a sentence that says how to export."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook import host_metrics
from loadbook.core.errors import DataError
from loadbook.host_metrics.base import Traces
from loadbook.ingestion.host_metrics import read_metric_files

CASES = Path("tests/fixtures/cases")
CAPTURES = Path("tests/fixtures/traces")


def read(path: Path, old: str = "", new: str = "") -> Traces:
    data = path.read_bytes()
    kind = host_metrics.detect_format(data)
    assert kind is not None
    return host_metrics.read_traces(kind, {path.name: data.replace(old.encode(), new.encode())})


def values(traces: Traces, metric: str, item: str = "all") -> list[float]:
    return [float(row["value"]) for row in traces.rows if (row["metric"], row["item"]) == (metric, item)]


def test_sadf_csv_with_decimal_commas_gives_the_rows_of_the_one_with_points() -> None:
    folder = CASES / "sadf_decimal_comma"
    german, plain = read(folder / "sadf-d-de_DE.csv"), read(folder / "sadf-d-C.csv")
    assert german == plain and not german.problems
    assert values(german, "cpu_busy", "cpu0")[0] == pytest.approx(1 - 0.5773)
    assert {"cpu_steal", "load1", "net_rx", "net_tx"} <= {row["metric"] for row in german.rows}


def test_sadf_json_with_decimal_commas_is_read() -> None:
    traces = read(CASES / "sadf_json_decimal_commas" / "sa.json")
    assert (len(traces.times), traces.interval_s, traces.problems) == (50, 5, [])
    busy = values(traces, "cpu_busy")
    assert busy[0] == pytest.approx(0.4361 + 0.1475) and 0.54 < min(busy) <= max(busy) < 0.66


def test_numbers_of_a_list_and_commas_in_texts_of_sadf_json_are_no_decimals() -> None:
    capture = CAPTURES / "sadf-12.6.1--all.json"
    added = '"comments": [{"com": "at: 1,2, again"}], "more": {"list": [1,2], "a": 3, "b": 4},'
    first = '"statistics": [\n\t\t\t\t{'
    changed = read(capture, first, first + added)
    assert first in capture.read_text() and changed == read(capture) and changed.rows


def test_sadf_csv_with_all_activities_on_a_line_is_read() -> None:
    traces = read(CASES / "sadf_horizontal" / "sa.csv")
    assert (len(traces.times), traces.interval_s, traces.problems) == (50, 5, [])
    assert values(traces, "cpu_busy")[0] == pytest.approx(0.4361 + 0.1475)
    assert values(traces, "memory_total") == [3_000_000 * 1024] * 50
    assert values(traces, "memory_used") == [(3_000_000 - 2_500_000) * 1024] * 50


def test_sadf_csv_with_the_cpus_on_a_line_gives_the_rows_of_sadf_json() -> None:
    across, json = read(CASES / "sadf_horizontal" / "one_repeated.csv"), read(CAPTURES / "sadf-12.6.1--all.json")
    metrics = {str(row["metric"]) for row in json.rows} - {"net_rx", "net_tx", "sockets_tcp_inuse", "sockets_tcp_tw"}
    assert not across.problems and {row["metric"] for row in across.rows} == metrics
    for metric in metrics:
        for item in ("all", "cpu0", "cpu1"):
            assert values(across, metric, item) == values(json, metric, item)


HEAD = "# hostname;interval;timestamp;"
REFUSED = {
    "two repeated": (None, "line 2: it holds all activities, more than one of them repeated: export it with sadf -d, "
                     "without -h"),
    "no metrics": (f"{HEAD}tps;rtps\nvm;1;7;1.00;2.00\nvm;1;8;1.00;2.00\n", "it holds none of the metrics that are "
                   "read: cpu_busy, "),
    "no numbers": (f"{HEAD}CPU;%user;%idle\nvm;1;7;-1;1'5;9'0\nvm;1;8;-1;1'5;9'0\n",
                   'user is "1\'5", idle is "9\'0": no number; export it with LC_ALL=C'),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_sadf_csv_that_cannot_be_used_is_refused_with_its_reason(case: str, tmp_path: Path) -> None:
    text, reason = REFUSED[case]
    path = CASES / "sadf_horizontal" / "two_repeated.csv"
    if text is not None:
        path = tmp_path / "sa.csv"
        path.write_text(text)
    with pytest.raises(DataError) as refused:
        read_metric_files([path])
    assert refused.value.message.startswith(f"{path.name}: read as sadf-csv, nothing usable in it: {reason}")


def test_column_that_is_no_number_is_told_beside_the_others() -> None:
    traces = read(CASES / "sadf_decimal_comma" / "sadf-d-C.csv", "49.24", "n/a")
    assert [p.message for p in traces.problems] == ["idle is 'n/a': no number; export it with LC_ALL=C"]
    assert len(values(traces, "cpu_busy")) == 3 and len(values(traces, "load1")) == 4
